package chat

import (
	"fmt"

	"vagen/policy"
)

var _ policy.Counter = (*Model)(nil)

// Count implements policy.Counter with an estimate: four tokens for each message, one
// for three bytes of text, and for images Options.ImageTokens or an estimate from
// their size. Only the service knows the exact number, after the request.
func (m *Model) Count(p policy.Prompt) (int, error) {
	var n int64
	for i, msg := range p.Messages {
		parts, err := m.split(msg)
		if err != nil {
			return 0, fmt.Errorf("chat: message %d: %w", i, err)
		}
		for _, part := range parts {
			n += m.estimate(part)
		}
	}
	return int(n), nil
}
