package remote

// maxIdle is how many goroutines of a pool wait for more work.
const maxIdle = 64

// pool runs functions on reused goroutines. A new goroutine would grow its stack again
// in every call of an environment.
type pool struct {
	work chan func()
	idle chan struct{} // has one entry for each waiting goroutine
	stop chan struct{} // closed to end the waiting goroutines
}

// run starts f and returns.
func (c *pool) run(f func()) {
	select {
	case c.work <- f:
	default:
		go c.worker(f)
	}
}

// worker runs f and then further functions; it ends if enough others wait.
func (c *pool) worker(f func()) {
	for {
		f()
		f = nil // lets the garbage collector free what f refers to
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
