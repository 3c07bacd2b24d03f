package remote

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"vagen/env/remote/internal/pyjson"
	"vagen/env/remote/internal/wire"
)

func TestOneRequestMakesABoundedNumberOfEnvironments(t *testing.T) {
	o := DefaultServerOptions()
	assert.Positive(t, o.MaxBatch)
	assert.Positive(t, o.MaxSessions)
	var closed atomic.Int64
	s := serve(t, func(o *ServerOptions) { o.Legacy, o.MaxBatch = legacyStubs(t, &closed), 2 })
	a := post(t, s, "/environments", orders("stub", "0", "1", "2"))
	assert.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	assert.Contains(t, a.text, "found 3, at most 2 are allowed")
	assert.Zero(t, s.legacy.len())
	assert.Equal(t, http.StatusOK, post(t, s, "/environments", orders("stub", "0", "1")).status)
}

func TestRequestsOfTooManyValuesAreRefusedOnBothWires(t *testing.T) {
	var closed atomic.Int64
	s := serve(t, func(o *ServerOptions) { o.Legacy = legacyStubs(t, &closed) })
	many := `{"ids2configs": {}, "x": [` + strings.Repeat(`{"":0},`, pyjson.MaxValues/2) + `0]}`
	as := func(kind string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Content-Type", kind) }
	}
	a := ask(t, s, http.MethodPost, "/environments", []byte(many), as("application/json"))
	assert.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	body := wire.Encode("b", []byte(many), nil, "")
	a = ask(t, s, http.MethodPost, "/connect", body, as(wire.ContentType("multipart/form-data", "b")))
	assert.Equal(t, http.StatusRequestEntityTooLarge, a.status)
	assert.Contains(t, a.text, "values")
}

// The body of a request about an environment that does not exist is not decoded, which could be another error.
func TestCallsOfUnknownSessionsAreRefusedUnread(t *testing.T) {
	var closed atomic.Int64
	s := serve(t, func(o *ServerOptions) { o.Legacy = legacyStubs(t, &closed) })
	many := "[" + strings.Repeat("0,", pyjson.MaxValues) + "0]"
	for _, path := range []string{"/step/who", "/reset/who"} {
		a := ask(t, s, http.MethodPost, path, []byte(`{"action": `+many+`}`), func(r *http.Request) {
			r.Header.Set("Content-Type", "application/json")
		})
		assert.Equal(t, http.StatusInternalServerError, a.status)
		assert.Contains(t, a.text, "Environment who not found")
	}
}

// TestServicesKeepAndRepeatLittleOfARequest: ids are kept, and names and values are repeated in errors and logs.
func TestServicesKeepAndRepeatLittleOfARequest(t *testing.T) {
	var closed atomic.Int64
	s := serve(t, func(o *ServerOptions) { o.Legacy = legacyStubs(t, &closed) })
	long := strings.Repeat("<", 1<<16)
	create := func(id, name string) said { return post(t, s, "/environments", orders(name, id)) }
	a := create(long, "stub")
	assert.Equal(t, http.StatusInternalServerError, a.status)
	assert.Contains(t, a.text, "an id has 65536 bytes, at most 1000 are allowed")
	assert.Zero(t, s.legacy.len())
	assert.Equal(t, http.StatusOK, create(long[:1000], "stub").status)
	for _, a := range []said{
		create("a", long), post(t, s, "/batch/step", `{"ids2actions": {"`+long+`": "x"}}`),
		post(t, s, "/connect", `{"env_config": {"`+long+`": 1}}`),
	} {
		assert.NotEqual(t, http.StatusOK, a.status)
		assert.Less(t, len(a.text), 5*maxText, a.text[:min(len(a.text), 100)])
	}
}
