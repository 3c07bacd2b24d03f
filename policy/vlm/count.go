package vlm

import (
	"fmt"
	"image"

	"vagen/policy"
)

var _ policy.Counter = (*Model)(nil)

// Count implements policy.Counter: the tokens that Generate would read for the prompt,
// including those that end the previous response.
func (m *Model) Count(p policy.Prompt) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	var images []image.Image
	for _, msg := range p.Messages {
		images = append(images, msg.Images...)
	}
	_, pics, errs := m.prepareImages([][]image.Image{images})
	if errs[0] != nil {
		return 0, errs[0]
	}
	ids, err := m.encode(p, pics[0])
	if err != nil {
		return 0, fmt.Errorf("vlm: %w", err)
	}
	return len(ids), nil
}
