package remote

// maxIdle is how many goroutines of a crew wait for more to do.
const maxIdle = 64

// crew runs functions apart from their callers, on goroutines that stay for the
// next: a new one would grow its stack anew for every call of an environment.
type crew struct {
	work chan func()
	idle chan struct{} // holds one entry for each goroutine that waits
	stop chan struct{} // closed when nobody should wait any longer
}

func newCrew(stop chan struct{}) *crew {
	return &crew{work: make(chan func()), idle: make(chan struct{}, maxIdle), stop: stop}
}

// run starts f and returns.
func (c *crew) run(f func()) {
	select {
	case c.work <- f:
	default:
		go c.member(f)
	}
}

// member runs f and then what comes, as long as not too many others wait.
func (c *crew) member(f func()) {
	for {
		f()
		f = nil // what it holds may be collected while there is nothing to do
		select {
		case c.idle <- struct{}{}:
		default:
			return
		}
		select {
		case f = <-c.work:
			<-c.idle
		case <-c.stop:
			return
		}
	}
}
