package transport

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// Post sends JSON and returns the answer with the first most bytes of its body, which is closed.
func Post(ctx context.Context, c *http.Client, url string, body []byte, most int64) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, most))
	return answer, raw, err
}
