// Package spill keeps columns of numbers on disk that do not fit into memory: in a file
// without a name, mapped into memory, which the system reads and writes as it is used and
// which is gone with the process at the latest.
//
// The file holds personal data. Nobody can open it by a name, but who may read the disk
// itself, or the memory of the process, can.
package spill

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// ErrUnsupported says that this system cannot map files.
var ErrUnsupported = errors.New("spill: only Linux can keep rows on disk")

// File is room for so many numbers on disk. Nil is one that has none.
type File struct {
	mu     sync.Mutex
	mapped []byte
	used   int
}

// page is what the columns of a File are aligned to.
const page = 4096

// Bytes is how much room columns of so many numbers each take.
func Bytes(columns int, numbers int64) int64 { return int64(columns) * roundUp(8*numbers) }

func roundUp(bytes int64) int64 { return (bytes + page - 1) / page * page }

// New makes a file in a folder and takes all its room at once, so that no later use of it
// can fail for want of it.
//
// Errors: the system's, also when there is less room; ErrUnsupported.
func New(dir string, bytes int64) (*File, error) {
	f, err := os.CreateTemp(dir, "dpsidecar-")
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	mapped, err := reserve(f, max(bytes, page))
	if err != nil {
		return nil, fmt.Errorf("spill: %d bytes in %s: %w", bytes, dir, err)
	}
	return &File{mapped: mapped}, nil
}

// Check reports whether files can be made in a folder.
func Check(dir string) error {
	f, err := New(dir, page)
	if err == nil {
		f.Close()
	}
	return err
}

// Make returns n zeros of the file's room, and what make returns where that is used up or
// there is no file.
func (f *File) Make(n int) []float64 {
	if f == nil || n == 0 {
		return make([]float64, n)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	size := int(roundUp(8 * int64(n)))
	if f.used+size > len(f.mapped) {
		return make([]float64, n)
	}
	column := unsafe.Slice((*float64)(unsafe.Pointer(&f.mapped[f.used])), n)
	f.used += size
	return column
}

// Close gives the room back. What Make returned must not be used any more: to read it would end
// the program.
func (f *File) Close() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	mapped := f.mapped
	f.mapped, f.used = nil, 0
	return release(mapped)
}
