package keyvalue_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy/vlm/internal/keyvalue"
)

// stores are a store in this process and one behind HTTP.
func stores(t *testing.T) map[string]keyvalue.Store {
	served := httptest.NewServer(keyvalue.Handler(keyvalue.NewMemory(), "secret"))
	t.Cleanup(served.Close)
	return map[string]keyvalue.Store{"memory": keyvalue.NewMemory(), "http": &keyvalue.Client{URL: served.URL, Token: "secret"}}
}

func TestValuesAreWrittenOnceAndWaitedFor(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			_, err := s.TryGet(ctx, "a/b c?&=ü")
			require.ErrorIs(t, err, keyvalue.ErrNotFound)
			found := make(chan string)
			go func() {
				value, err := s.Get(ctx, "a/b c?&=ü")
				found <- fmt.Sprintf("%x %v", value, err)
			}()
			require.NoError(t, s.Put(ctx, "a/b c?&=ü", []byte{0, 255}))
			require.Equal(t, "00ff <nil>", <-found)
			require.NoError(t, s.Put(ctx, "a/b c?&=ü", []byte{0, 255}), "the same value")
			require.ErrorIs(t, s.Put(ctx, "a/b c?&=ü", []byte{1}), keyvalue.ErrExists)
			require.NoError(t, s.Put(ctx, "empty", nil))
			value, err := s.TryGet(ctx, "empty")
			require.NoError(t, err)
			require.Empty(t, value)

			ctx, cancel := context.WithCancel(ctx)
			go cancel()
			_, err = s.Get(ctx, "never")
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

func TestTheStoreIsBounded(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			require.ErrorIs(t, s.Put(ctx, "", nil), keyvalue.ErrLimit)
			require.ErrorIs(t, s.Put(ctx, strings.Repeat("k", keyvalue.MaxKey+1), nil), keyvalue.ErrLimit)
			require.ErrorIs(t, s.Put(ctx, "large", make([]byte, keyvalue.MaxValue+1)), keyvalue.ErrLimit)
			require.NoError(t, s.Put(ctx, "large", make([]byte, keyvalue.MaxValue)))
			if name != "memory" {
				return
			}
			for i := 1; i < keyvalue.MaxKeys; i++ {
				require.NoError(t, s.Put(ctx, fmt.Sprint(i), nil))
			}
			require.ErrorIs(t, s.Put(ctx, "one more", nil), keyvalue.ErrLimit)
		})
	}
}

func TestTheServerRefusesStrangers(t *testing.T) {
	memory := keyvalue.NewMemory()
	require.NoError(t, memory.Put(t.Context(), "a", []byte("value")))
	served := httptest.NewServer(keyvalue.Handler(memory, "secret"))
	defer served.Close()
	for _, token := range []string{"", "secre", "secret2"} {
		_, err := (&keyvalue.Client{URL: served.URL, Token: token}).TryGet(t.Context(), "a")
		require.ErrorIs(t, err, keyvalue.ErrToken)
	}
	for method, want := range map[string]int{http.MethodDelete: http.StatusMethodNotAllowed, http.MethodPut: http.StatusRequestEntityTooLarge} {
		// A body larger than it says it is, sent without the checks of Client.
		r, err := http.NewRequestWithContext(t.Context(), method, served.URL+"?key=b", strings.NewReader(strings.Repeat("x", keyvalue.MaxValue+1)))
		require.NoError(t, err)
		r.Header.Set("Authorization", "Bearer secret")
		answer, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		answer.Body.Close()
		require.Equal(t, want, answer.StatusCode)
	}
	_, err := memory.TryGet(t.Context(), "b")
	require.ErrorIs(t, err, keyvalue.ErrNotFound)
}
