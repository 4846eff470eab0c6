package mech

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// Crew is a sync.WaitGroup whose Wait panics with a *Broken if a function that it ran has panicked. Without
// it a panic on a separate goroutine would end the program, possibly because of one person's row. Faults
// when reading numbers on disk are panics too.
type Crew struct {
	group  sync.WaitGroup
	broken atomic.Pointer[Broken]
}

// Go runs f on a goroutine of its own.
func (c *Crew) Go(f func()) {
	c.group.Go(func() {
		debug.SetPanicOnFault(true)
		defer func() {
			if v := recover(); v != nil {
				c.broken.CompareAndSwap(nil, Break(v))
			}
		}()
		f()
	})
}

// Wait returns when all functions have ended; it panics if one of them has panicked.
func (c *Crew) Wait() {
	c.group.Wait()
	if b := c.broken.Load(); b != nil {
		panic(b)
	}
}

// Broken is the call stack of a function that panicked while it worked on data. It leaves out the panic's
// value, since an index, a length or a message may quote data.
type Broken struct{ Functions []string }

func (b *Broken) Error() string { return "panic at " + strings.Join(b.Functions, " < ") }

// Break converts the result of recover to a Broken, inside the deferred function that called recover; a
// Broken from a Crew is returned unchanged.
func Break(recovered any) *Broken {
	if b, ok := recovered.(*Broken); ok {
		return b
	}
	b := new(Broken)
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		b.Functions = append(b.Functions, fmt.Sprintf("%s:%d", f.Function, f.Line))
	}
	return b
}
