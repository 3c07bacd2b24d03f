package view

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"vagen/internal/floats"
)

// maxAnswer limits an answer in bytes.
const maxAnswer = 128 << 20

// failure is an error with the status of its answer.
type failure struct {
	status int
	err    error
}

func (f failure) Error() string { return f.err.Error() }

func notFound(format string, args ...any) error {
	return failure{http.StatusNotFound, fmt.Errorf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return failure{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// encode writes an answer as JSON. It passes an error on.
func encode(v any, err error) (json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return nil, err
	}
	if b.Len() > maxAnswer {
		return nil, failure{http.StatusUnprocessableEntity, fmt.Errorf("the answer has %d bytes, at most %d are allowed",
			b.Len(), maxAnswer)}
	}
	return b.Bytes(), nil
}

// answer writes what f returns for the parameters of a request.
func answer[T any](f func(context.Context, url.Values) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		raw, err := encode(f(r.Context(), r.URL.Query()))
		if err != nil {
			refuse(w, err)
			return
		}
		send(w, http.StatusOK, raw)
	}
}

// refuse answers with an error. Those without a status are of data on the disk that
// cannot be read.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusUnprocessableEntity
	var f failure
	if errors.As(err, &f) {
		status = f.status
	}
	raw, _ := json.Marshal(map[string]string{"error": err.Error()}) // never fails for texts
	send(w, status, raw)
}

func send(w http.ResponseWriter, status int, raw []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client may be gone
}

// number is null in JSON if it is not finite.
type number float64

func (n number) MarshalJSON() ([]byte, error) { return appendNumber(nil, float64(n), 64), nil }

// column is a list of numbers of tokens; NaN is null in JSON.
type column []float32

func (c column) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, 2+8*len(c)), '[')
	for i, x := range c {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumber(b, float64(x), 32)
	}
	return append(b, ']'), nil
}

func appendNumber(b []byte, x float64, bits int) []byte {
	if !floats.Finite(x) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, x, 'g', -1, bits)
}

// point is a step with its value.
type point struct {
	step  int
	value number
}

func (p point) MarshalJSON() ([]byte, error) {
	b := append(strconv.AppendInt([]byte{'['}, int64(p.step), 10), ',')
	return append(appendNumber(b, float64(p.value), 64), ']'), nil
}

// emptyIfNil replaces nil by an empty slice, which is not null in JSON.
func emptyIfNil[T any](x []T) []T {
	if x == nil {
		return []T{}
	}
	return x
}
