package queue

import "github.com/nats-io/nats-server/v2/server"

// TestServer is Start of package embedded, which imports this one: tests of package queue_test set it.
var TestServer Starter

// testOptions returns the default options with a server.
func testOptions() Options {
	o := DefaultOptions()
	o.Server = TestServer
	return o
}

func stop(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}
