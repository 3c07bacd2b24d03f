package openenv

import (
	"context"
	"net/http"

	"github.com/coder/websocket"
)

// open opens a WebSocket at the address of a request. A browser sends no header of ours.
func open(ctx context.Context, _ *http.Client, q *http.Request) (*websocket.Conn, error) {
	c, _, err := websocket.Dial(ctx, q.URL.String(), nil)
	return c, err
}
