package spill

import (
	"errors"
	"os"
	"syscall"
)

// reserve allocates space on disk for a file and maps it.
func reserve(f *os.File, bytes int64) ([]byte, error) {
	err := error(syscall.EINTR) // repeat while signals interrupt the call
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Fallocate(int(f.Fd()), 0, 0, bytes)
	}
	if err != nil {
		return nil, err
	}
	return syscall.Mmap(int(f.Fd()), 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
}

func release(mapped []byte) error {
	if mapped == nil {
		return nil
	}
	return syscall.Munmap(mapped)
}
