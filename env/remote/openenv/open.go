//go:build !js

package openenv

import (
	"context"
	"net/http"

	"github.com/coder/websocket"
)

// open opens a WebSocket with the address and the header of a request.
func open(ctx context.Context, client *http.Client, q *http.Request) (*websocket.Conn, error) {
	c, _, err := websocket.Dial(ctx, q.URL.String(), &websocket.DialOptions{HTTPClient: client, HTTPHeader: q.Header})
	return c, err
}
