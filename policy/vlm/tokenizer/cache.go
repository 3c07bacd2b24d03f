package tokenizer

import (
	"slices"
	"strings"
	"sync"
)

const (
	maxCached  = 64      // bytes longest piece that is cached
	generation = 1 << 14 // pieces in one generation
)

// cache stores the ids of pieces in two generations: when the young one is full, it
// replaces the old one. So memory is bounded and recently used entries survive. The
// zero value is ready to use.
type cache struct {
	mu         sync.RWMutex
	young, old map[string][]int32
}

// get returns the ids of a piece; they must not be changed.
func (c *cache) get(piece string) ([]int32, bool) {
	c.mu.RLock()
	ids, ok := c.young[piece]
	if ok {
		c.mu.RUnlock()
		return ids, true
	}
	ids, ok = c.old[piece]
	c.mu.RUnlock()
	if ok {
		c.add(strings.Clone(piece), ids)
	}
	return ids, ok
}

// put stores copies, so that neither text nor slice is kept alive.
func (c *cache) put(piece string, ids []int32) { c.add(strings.Clone(piece), slices.Clone(ids)) }

func (c *cache) add(piece string, ids []int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.young) >= generation {
		c.old, c.young = c.young, nil
	}
	if c.young == nil {
		c.young = make(map[string][]int32)
	}
	c.young[piece] = ids
}
