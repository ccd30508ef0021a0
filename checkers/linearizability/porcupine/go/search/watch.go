package search

import (
	"fmt"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Limits of a search; zero: none.
type Limits struct {
	Time   time.Duration
	Memory int64 // bytes, of the whole worker
}

// watch says when a search must stop, and why.
type watch struct {
	stopped atomic.Bool
	why     atomic.Value // a string, once stopped
	done    chan struct{}
}

const sampling = 5 * time.Millisecond

// startWatch watches from now on, until end is called.
func startWatch(limits Limits) *watch {
	w := &watch{done: make(chan struct{})}
	if limits.Memory > 0 {
		// The collector works harder before the limit is reached, so that garbage is not taken for need.
		debug.SetMemoryLimit(limits.Memory - limits.Memory/8)
	}
	go w.run(limits)
	return w
}

func (w *watch) run(limits Limits) {
	var timeout <-chan time.Time
	if limits.Time > 0 {
		timeout = time.After(limits.Time)
	}
	var ticks <-chan time.Time
	if limits.Memory > 0 {
		ticker := time.NewTicker(sampling)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for {
		select {
		case <-w.done:
			return
		case <-timeout:
			w.stop(outOfTime(limits))
			return
		case <-ticks:
			if used := InUse(); used > limits.Memory {
				w.stop(fmt.Sprintf("out of memory (%d MiB)", limits.Memory>>20))
				return
			}
		}
	}
}

func (w *watch) stop(why string) {
	w.why.Store(why)
	w.stopped.Store(true)
}

// end stops watching; the answer is why the search was stopped, or empty.
func (w *watch) end() string {
	close(w.done)
	if !w.stopped.Load() {
		return ""
	}
	return w.why.Load().(string)
}

// InUse is the memory the process has from the system, in bytes.
func InUse() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64()) - int64(samples[1].Value.Uint64())
}

func outOfTime(limits Limits) string {
	return fmt.Sprintf("out of time (%v)", limits.Time)
}
