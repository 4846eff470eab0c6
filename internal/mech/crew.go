package mech

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// Crew is a sync.WaitGroup whose Wait panics, with a *Broken, once a function that it
// ran has panicked: on a goroutine of its own that would end the program, for reasons
// that may lie in one person's row. To read numbers on disk that cannot be read is a panic too.
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

// Wait returns, or panics, when all have ended.
func (c *Crew) Wait() {
	c.group.Wait()
	if b := c.broken.Load(); b != nil {
		panic(b)
	}
}

// Broken is where a function panicked that worked on data. It does not say with what:
// an index, a length or a message may quote a value.
type Broken struct{ Functions []string }

func (b *Broken) Error() string { return "panic at " + strings.Join(b.Functions, " < ") }

// Break makes a Broken of what recover returned, inside the deferred function that
// called it; one that comes from a Crew stays what it is.
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
