package engine

import (
	"context"
	"image"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
)

// TestAPauseWhoseAnswerIsLostIsEnded: otherwise the server would stay paused after an
// interrupted run. A server that refused the pause is not asked.
func TestAPauseWhoseAnswerIsLostIsEnded(t *testing.T) {
	for _, kind := range kinds {
		for _, refused := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			resumed := make(chan string, 1)
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/pause", "/pause_generation":
					if refused {
						http.Error(w, "no", http.StatusBadRequest)
						return
					}
					cancel()
					<-ctx.Done()
					panic(http.ErrAbortHandler)
				case "/resume", "/continue_generation":
					resumed <- r.URL.Path
				default:
					t.Error(r.URL.Path)
				}
			}))
			o := testOptions(kind, h.URL)
			var api protocol = &vllm{newWire(&o), ""}
			if kind == SGLang {
				api = &sglang{newWire(&o)}
			}
			require.Error(t, api.reload(ctx, h.URL, "/weights", "v1"))
			require.Len(t, resumed, map[bool]int{true: 0, false: 1}[refused], kind)
			cancel()
			h.Close()
		}
	}
}

// slow is an image whose size is known only when it is released.
type slow struct {
	image.Image
	begun, release chan struct{}
}

func (s slow) Bounds() image.Rectangle {
	select {
	case s.begun <- struct{}{}:
	default:
	}
	<-s.release
	return s.Image.Bounds()
}

// TestImagesOfConversationsAreReadAtTheSameTime, because the episodes of a worker share a policy.
func TestImagesOfConversationsAreReadAtTheSameTime(t *testing.T) {
	f, _ := opened(t, VLLM, 1, nil)
	p := NewPolicy(f)
	s := slow{drawn(96, 96, 10), make(chan struct{}, 1), make(chan struct{})}
	done := make(chan []policy.Completion)
	go func() { done <- ask(t, p, opening(1, "start", s)) }()
	<-s.begun
	require.NoError(t, ask(t, p, opening(2, "start", drawn(96, 96, 20)))[0].Err)
	close(s.release)
	require.NoError(t, (<-done)[0].Err)
}
