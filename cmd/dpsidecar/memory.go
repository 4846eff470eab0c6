package main

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
)

// memory is a size in bytes, written like 512MiB or 4GiB; 0 is no limit.
type memory int64

var units = []struct {
	name  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *memory) UnmarshalText(text []byte) error {
	number, scale := string(text), 1.0
	for _, u := range units {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, scale = n, u.bytes
		}
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(v >= 0 && v*scale < 1<<62) {
		return errors.New("want a size like 512MiB or 4GiB")
	}
	*m = memory(v * scale)
	return nil
}

// memoryPerJob returns the default memory limit of a job in bytes: three quarters of the memory of the
// machine or the container, divided by the number of concurrent jobs; 0 if that memory is unknown.
func memoryPerJob(jobs int) int64 {
	least := int64(0)
	for _, found := range []int64{cgroupLimit(), machineMemory()} {
		if found > 0 && (least == 0 || found < least) {
			least = found
		}
	}
	return least / 4 * 3 / int64(jobs)
}

// cgroupLimit returns the container's memory limit; 0 if there is none.
func cgroupLimit() int64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, _ := os.ReadFile(file)
		if v, err := strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err == nil {
			return v
		}
	}
	return 0
}

// machineMemory returns the memory of the machine on Linux; 0 on other systems.
func machineMemory() int64 {
	text, _ := os.ReadFile("/proc/meminfo")
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
			v, _ := strconv.ParseInt(f[1], 10, 64)
			return v << 10
		}
	}
	return 0
}
