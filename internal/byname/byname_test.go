package byname_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/byname"
)

var errUnknown = errors.New("nothing has that name")

func TestTheZeroTableTakesAndFinds(t *testing.T) {
	var table byname.Table[int]
	require.Empty(t, table.Names())
	require.True(t, table.Add("two", 2))
	require.True(t, table.Add("one", 1))
	got, err := table.Get("two", errUnknown)
	require.NoError(t, err)
	assert.Equal(t, 2, got)
	assert.Equal(t, []string{"one", "two"}, table.Names())
}

func TestATakenNameKeepsItsThing(t *testing.T) {
	var table byname.Table[int]
	table.AddAll(map[string]int{"one": 1})
	assert.False(t, table.Add("one", 11))
	got, err := table.Get("one", errUnknown)
	require.NoError(t, err)
	assert.Equal(t, 1, got)
}

func TestAnUnknownNameIsExplained(t *testing.T) {
	var table byname.Table[int]
	table.AddAll(map[string]int{"seven": 7, "eleven": 11})
	_, err := table.Get("sevn", errUnknown)
	require.ErrorIs(t, err, errUnknown)
	assert.EqualError(t, err, `"sevn": nothing has that name, did you mean "seven"? (known: eleven, seven)`)
}

// The race detector is what judges here.
func TestATableMayBeUsedFromManyGoroutines(t *testing.T) {
	var table byname.Table[int]
	var all sync.WaitGroup
	added := make(chan bool, 8)
	for i := range 8 {
		all.Go(func() {
			added <- table.Add("same", i)
			table.Names()
			_, _ = table.Get("same", errUnknown)
		})
	}
	all.Wait()
	close(added)
	won := 0
	for ok := range added {
		if ok {
			won++
		}
	}
	assert.Equal(t, 1, won)
}
