package mech

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
)

// PanicGroup is a sync.WaitGroup whose Wait panics with a *CaughtPanic if a function that it ran has panicked. Without
// it a panic on a separate goroutine would end the program, possibly because of one person's row. Faults
// when reading numbers on disk are panics too.
type PanicGroup struct {
	group  sync.WaitGroup
	caught atomic.Pointer[CaughtPanic]
}

// Go runs f on a goroutine of its own.
func (g *PanicGroup) Go(f func()) {
	g.group.Go(func() {
		debug.SetPanicOnFault(true)
		defer func() {
			if v := recover(); v != nil {
				g.caught.CompareAndSwap(nil, CatchPanic(v))
			}
		}()
		f()
	})
}

// Wait returns when all functions have ended; it panics if one of them has panicked.
func (g *PanicGroup) Wait() {
	g.group.Wait()
	if caught := g.caught.Load(); caught != nil {
		panic(caught)
	}
}

// CaughtPanic is the call stack of a function that panicked while it worked on data. It leaves out the panic's
// value, since an index, a length or a message may quote data.
type CaughtPanic struct{ Functions []string }

func (p *CaughtPanic) Error() string { return "panic at " + strings.Join(p.Functions, " < ") }

// CatchPanic converts the result of recover to a CaughtPanic, inside the deferred function that called recover; a
// CaughtPanic from a PanicGroup is returned unchanged.
func CatchPanic(recovered any) *CaughtPanic {
	if p, ok := recovered.(*CaughtPanic); ok {
		return p
	}
	p := new(CaughtPanic)
	callers := make([]uintptr, 32)
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers)])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		p.Functions = append(p.Functions, fmt.Sprintf("%s:%d", f.Function, f.Line))
	}
	return p
}
