package spill

import (
	"os"
	"strings"
	"testing"
)

func TestColumnsOnDiskAreZeroAndApart(t *testing.T) {
	dir := t.TempDir()
	f, err := New(dir, Bytes(2, 1000))
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v: the file has a name", entries, err)
	}
	a, b, beyond := f.Make(1000), f.Make(1000), f.Make(1000)
	for i := range a {
		if a[i] != 0 || b[i] != 0 || beyond[i] != 0 {
			t.Fatalf("row %d: %v, %v, %v", i, a[i], b[i], beyond[i])
		}
		a[i], b[i], beyond[i] = 1, 2, 3
	}
	for i := range a {
		if a[i] != 1 || b[i] != 2 || beyond[i] != 3 {
			t.Fatalf("row %d: %v, %v, %v", i, a[i], b[i], beyond[i])
		}
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil && !strings.Contains(string(maps), dir) {
		t.Error("no file of the folder is mapped")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil && strings.Contains(string(maps), dir) {
		t.Error("the file is still mapped")
	}
}

func TestWithoutAFileThereIsMemory(t *testing.T) {
	var f *File
	if len(f.Make(3)) != 3 || f.Close() != nil {
		t.Error("a nil file")
	}
}

func TestRoomThatThereIsNotIsRefusedAtOnce(t *testing.T) {
	if f, err := New(t.TempDir(), 1<<60); err == nil {
		f.Close()
		t.Error("an exbibyte was reserved")
	}
	if err := Check(t.TempDir() + "/none"); err == nil {
		t.Error("a folder that is not there")
	}
	if err := Check(t.TempDir()); err != nil {
		t.Error(err)
	}
}
