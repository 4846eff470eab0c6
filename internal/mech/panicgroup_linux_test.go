package mech

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"gonum.org/v1/gonum/floats"
)

// Numbers on disk that cannot be read, as those beyond the end of their file, are a panic of a group, not of
// the program: also where assembly reads them.
func TestAPanicGroupOutlivesABadDisk(t *testing.T) {
	const page = 4096
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(page); err != nil {
		t.Fatal(err)
	}
	mapped, err := syscall.Mmap(int(f.Fd()), 0, page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(mapped) }()
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	column := unsafe.Slice((*float64)(unsafe.Pointer(&mapped[0])), page/8)
	for name, use := range map[string]func(){
		"read":     func() { column[1]++ },
		"assembly": func() { floats.AddScaled(make([]float64, len(column)), 2, column) },
	} {
		func() {
			defer func() {
				if caught, ok := recover().(*CaughtPanic); !ok {
					t.Errorf("%s: %v", name, caught)
				}
			}()
			var group PanicGroup
			group.Go(use)
			group.Wait()
		}()
	}
}
