package natsurl_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/natsurl"
)

func ExampleCheck() {
	fmt.Println(natsurl.Check("nats://a:4222,tls://b:4222"))
	fmt.Println(natsurl.Check("http://a"))
	// Output:
	// <nil>
	// it must be of the form nats://host:4222 or tls://host:4222, without path and query
}

// TestListen: a port is a number.
func TestListen(t *testing.T) {
	host, port, err := natsurl.Listen("[::1]:4222")
	require.NoError(t, err)
	require.Equal(t, "::1", host)
	require.Equal(t, 4222, port)
	for _, text := range []string{"", "nowhere", "host:name", "host:", "host:-1", "host:65536", "host:1:2"} {
		_, _, err := natsurl.Listen(text)
		require.ErrorContains(t, err, "must be host:port", text)
	}
}

// TestCheck also for URLs that the client of NATS cannot use.
func TestCheck(t *testing.T) {
	for _, url := range []string{"nats://a:1,nats://b:2", "nats://a, tls://b", "ws://a:1,wss://b:2", "nats://a/"} {
		require.NoError(t, natsurl.Check(url), url)
	}
	for url, want := range map[string]string{
		"ws://a:1,nats://b:2": "one kind", "tls://b,wss://a": "one kind", "nats://a/path": "without path",
		"nats://a,": "of the form", "http://a": "of the form",
		"": "of the form", "embedded,nats://a": "of the form", "nats://me:geheim@h": "the URL of h contains credentials",
		"nats://h?token=geheim": "without path",
		"nats://me:geheim@h:x":  "not a URL", "nats://h:1,http://me:geheim@h": "contains credentials",
	} {
		err := natsurl.Check(url)
		require.ErrorContains(t, err, want, url)
		require.NotContains(t, err.Error(), "geheim")
	}
}
