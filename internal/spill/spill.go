// Package spill keeps columns of numbers that do not fit into memory in a file on disk. The file has no
// name and is mapped into memory; the operating system reads and writes it on demand and removes it at the
// latest when the process ends.
//
// The file holds personal data. Nobody can open it by name, but anyone with access to the disk device or to
// the memory of the process can read it.
package spill

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// ErrUnsupported reports that this system cannot map files.
var ErrUnsupported = errors.New("spill: only Linux can keep rows on disk")

// File is space on disk for columns of numbers. A nil File has no space.
type File struct {
	mu     sync.Mutex
	mapped []byte
	used   int
}

// page is the alignment of the columns of a File, in bytes.
const page = 4096

// Bytes returns the size of a File for columns with the given number of numbers each.
func Bytes(columns int, numbers int64) int64 { return int64(columns) * roundUp(8*numbers) }

func roundUp(bytes int64) int64 { return (bytes + page - 1) / page * page }

// New makes a file in a folder and allocates all of its space at once, so that later uses cannot fail for
// lack of space.
//
// Errors: the system's, also if there is less space; ErrUnsupported.
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

// Make returns n zeros in the file's space, or in memory if the space is used up or f is nil.
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

// Close releases the space. The columns that Make returned must not be used afterwards: reading them would
// end the program.
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
