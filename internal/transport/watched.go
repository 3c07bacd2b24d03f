package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"vagen/internal/clock"
)

// ErrStalled is wrapped by errors about a request that transferred no bytes for too long.
var ErrStalled = errors.New("the transfer made no progress")

// Watched sends a request, and cancels it if no bytes are transferred: in the time answer before the answer begins,
// and in the time progress from then on, until its body is closed.
func Watched(c *http.Client, r *http.Request, answer, progress time.Duration) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	w := &watch{ctx: ctx, cancel: cancel}
	w.limit.End = func() { cancel(ErrStalled) }
	w.limit.Set(answer)
	r = r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = watched{r.Body, w, answer}
		if again := r.GetBody; again != nil {
			r.GetBody = func() (io.ReadCloser, error) {
				body, err := again()
				return watched{body, w, answer}, err
			}
		}
	}
	resp, err := c.Do(r)
	if err != nil {
		if err = Cause(w.cause(err)); errors.Is(err, ErrStalled) {
			err = fmt.Errorf("%w: no answer within %v", err, answer)
		}
		w.stop()
		return nil, err
	}
	w.limit.Set(progress)
	resp.Body = received{watched{resp.Body, w, progress}}
	return resp, nil
}

// watch cancels a request if no bytes are transferred for some time.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  clock.Limit
}

func (w *watch) stop() {
	w.limit.Free()
	w.cancel(nil)
}

// cause returns the reason for which the request was cancelled, or err if it was not.
func (w *watch) cause(err error) error {
	if err != nil && err != io.EOF && w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	return err
}

// watched is the body of a request or an answer.
type watched struct {
	io.ReadCloser
	*watch
	until time.Duration // the next bytes
}

func (b watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.limit.Set(b.until)
	return n, b.cause(err)
}

// received is the body of an answer, which ends the watch.
type received struct{ watched }

func (b received) Close() error {
	err := b.ReadCloser.Close()
	b.stop()
	return err
}
