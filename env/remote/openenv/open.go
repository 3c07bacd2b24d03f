//go:build !js

package openenv

import (
	"net/http"

	"github.com/coder/websocket"
)

// dialOptions are those of a WebSocket.
func dialOptions(client *http.Client, header http.Header) *websocket.DialOptions {
	return &websocket.DialOptions{HTTPClient: client, HTTPHeader: header}
}
