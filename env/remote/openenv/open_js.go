package openenv

import (
	"net/http"

	"github.com/coder/websocket"
)

// dialOptions are none: a browser sends no header of ours.
func dialOptions(*http.Client, http.Header) *websocket.DialOptions { return nil }
