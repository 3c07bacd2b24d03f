package usage

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
)

// CollectAt sets the garbage collector's target percentage until restore is called, unless the
// environment variable GOGC sets it.
func CollectAt(percent int) (restore func()) {
	if _, set := os.LookupEnv("GOGC"); set {
		return func() {}
	}
	before := debug.SetGCPercent(percent)
	return func() { debug.SetGCPercent(before) }
}

// TrainGC is the target percentage of programs that train: their heap consists of few, large
// pictures, and garbage of the size of what is in use would be the larger part of a small run.
const TrainGC = 25

// WithGarbage returns the memory of objects of a total size with the garbage that is allocated before the collector
// has finished: as much as its target percentage allows, at most the same again.
func WithGarbage(size int64) int64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	percent := uint64(100)
	if s[0].Value.Kind() == metrics.KindUint64 {
		percent = min(percent, s[0].Value.Uint64())
	}
	return size + size*int64(percent)/100
}

// GoMemory returns the memory that the Go runtime uses now, and the amount to which it
// can grow before the garbage collector finishes its next cycle, if nothing more is
// retained.
func GoMemory() (now, next int64) {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/goal:bytes"},
	}
	metrics.Read(s)
	at := func(i int) int64 {
		if s[i].Value.Kind() != metrics.KindUint64 {
			return 0 // another version of Go
		}
		return int64(s[i].Value.Uint64())
	}
	total, released, objects, goal := at(0), at(1), at(2), at(3)
	now = total - released
	// Space between objects is reused first.
	beside := now - objects
	return now, max(now, goal+beside/4)
}
