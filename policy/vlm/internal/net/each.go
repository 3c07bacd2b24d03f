package net

import (
	"errors"
	"sync"
)

// Each calls f for every device at the same time and returns the errors of all.
func Each(devices int, f func(device int) error) error {
	if devices == 1 {
		return f(0)
	}
	errs := make([]error, devices)
	var wg sync.WaitGroup
	for i := range devices {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
