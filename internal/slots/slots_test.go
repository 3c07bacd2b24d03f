package slots

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// read reads a body of size bytes; gone, if set, is a client that has left.
func read(t *testing.T, s Slots, size int, gone bool) (leave func(), err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if gone {
		cancel()
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", size)))
	raw, leave, err := s.ReadBody(httptest.NewRecorder(), r, 4*SmallBody, time.Minute)
	if err == nil {
		require.Len(t, raw, size)
	}
	return leave, err
}

// TestFewLargeBodiesAreInMemory: one more is not read before another is done, and small ones do not wait.
func TestFewLargeBodiesAreInMemory(t *testing.T) {
	s := ForBodies()
	var held []func()
	for range LargeBodies {
		leave, err := read(t, s, SmallBody+1, false)
		require.NoError(t, err)
		held = append(held, leave)
	}
	_, err := read(t, s, SmallBody+1, true)
	require.ErrorIs(t, err, context.Canceled)
	for _, small := range []int{0, 1, preallocated, preallocated + 1, SmallBody} {
		_, err = read(t, s, small, true)
		require.NoError(t, err, small)
	}
	held[0]()
	held[0]()
	_, err = read(t, s, SmallBody+1, false)
	require.NoError(t, err)
	require.Len(t, s, LargeBodies, "leaving twice frees one slot")
}

// TestBodiesThatAreNotReadHoldNoSlot: those that are too long, or that end too early.
func TestBodiesThatAreNotReadHoldNoSlot(t *testing.T) {
	s := ForBodies()
	_, err := read(t, s, 4*SmallBody+1, false)
	tooLong := (*http.MaxBytesError)(nil)
	require.True(t, errors.As(err, &tooLong))
	r := httptest.NewRequest(http.MethodPost, "/", io.LimitReader(strings.NewReader("short"), 5))
	require.Negative(t, r.ContentLength, "it is unknown")
	_, _, err = s.ReadBody(httptest.NewRecorder(), r, 3, time.Minute)
	require.True(t, errors.As(err, &tooLong))
	r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader("short"))
	r.ContentLength = 10
	_, _, err = s.ReadBody(httptest.NewRecorder(), r, 20, time.Minute)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Empty(t, s)
}

// TestTheDeclaredLengthOfABodyIsChecked: a body that is too long is refused before it arrives.
func TestTheDeclaredLengthOfABodyIsChecked(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(errors.New("it was read")))
	r.ContentLength = SmallBody + 2
	_, _, err := Slots(nil).ReadBody(httptest.NewRecorder(), r, SmallBody+1, time.Minute)
	tooLong, ok := errors.AsType[*http.MaxBytesError](err)
	require.True(t, ok, err)
	require.EqualValues(t, SmallBody+1, tooLong.Limit)
}
