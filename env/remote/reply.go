package remote

import (
	"errors"
	"fmt"
	"html"
	"net/http"

	"vagen/env"
	"vagen/env/remote/internal/pyjson"
	"vagen/internal/transport"
)

const (
	kindJSON = "application/json"
	kindHTML = "text/html; charset=utf-8"
)

// plain returns a reply with an object in the Lite service's style.
func plain(status int, in Info) reply {
	body, err := pyjson.Append(nil, in, pyjson.Plain)
	if err != nil {
		return detail(http.StatusInternalServerError, err.Error())
	}
	return reply{status: status, kind: kindJSON, body: body}
}

// maxText limits the texts of errors, in bytes: they repeat what a client sent.
const maxText = 8000

// detail returns an error reply of the Lite service.
func detail(status int, text string) reply {
	return plain(status, Info{{"detail", transport.Clip(text, maxText)}})
}

// object returns a reply with an object in the legacy service's style.
func object(status int, in Info) reply {
	body, err := pyjson.Append(nil, in, pyjson.Legacy)
	if err != nil {
		return page(http.StatusInternalServerError, err.Error())
	}
	return reply{status: status, kind: kindJSON, body: append(body, '\n')}
}

// page returns an error page of the legacy service.
func page(status int, text string) reply {
	name := http.StatusText(status)
	return reply{status: status, kind: kindHTML, body: fmt.Appendf(nil,
		"<!doctype html>\n<html lang=en>\n<title>%d %s</title>\n<h1>%s</h1>\n<p>%s</p>\n", status, name, name,
		html.EscapeString(transport.Clip(text, maxText)))}
}

// routingError returns the reply to a request without a handler.
func routingError(rt route, status int) reply {
	if rt.html {
		return page(status, "This service has no such route.")
	}
	return detail(status, http.StatusText(status))
}

// statusOf returns the status for an error of a call; 0 if the client has disconnected.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errDisconnected):
		return 0
	case errors.Is(err, errNoSlot), errors.Is(err, errFull), errors.Is(err, errDraining):
		return http.StatusServiceUnavailable
	case errors.Is(err, errTimeout):
		return http.StatusGatewayTimeout
	case errors.Is(err, pyjson.ErrLimit), errors.Is(err, errBatch):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, env.ErrRefused):
		return http.StatusForbidden
	case unknownOption(err):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// unknownOption reports whether a client named an option that does not exist.
func unknownOption(err error) bool {
	return errors.Is(err, env.ErrOption) && errors.Is(err, env.ErrUnknown)
}
