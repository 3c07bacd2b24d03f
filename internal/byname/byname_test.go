package byname_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/byname"
)

var numbers = byname.Kind{
	Package: "math", Entry: "number",
	Unknown: errors.New("unknown name"), Duplicate: errors.New("the name is already registered"),
}

func TestTheZeroTableIsUsable(t *testing.T) {
	var table byname.Table[int]
	require.Empty(t, table.Names())
	require.NoError(t, table.Register(numbers, "two", 2))
	require.NoError(t, table.Register(numbers, "one", 1))
	got, err := table.Get(numbers, "two")
	require.NoError(t, err)
	assert.Equal(t, 2, got)
	assert.Equal(t, []string{"one", "two"}, table.Names())
}

func TestADuplicateNameKeepsTheFirstEntry(t *testing.T) {
	var table byname.Table[int]
	table.Fill(map[string]byname.Entry[int]{"one": {Value: 1}})
	err := table.Register(numbers, "one", 11)
	require.ErrorIs(t, err, numbers.Duplicate)
	assert.EqualError(t, err, `math: register number "one": the name is already registered`)
	got, err := table.Get(numbers, "one")
	require.NoError(t, err)
	assert.Equal(t, 1, got)
}

func TestAnEntryNeedsANameAndAValue(t *testing.T) {
	var table byname.Table[func()]
	require.ErrorContains(t, table.Register(numbers, "", func() {}), "a name and a value are needed")
	require.Error(t, table.Register(numbers, "nothing", nil))
	assert.Empty(t, table.Names())
}

func TestAnEntryHasADescription(t *testing.T) {
	var table byname.Table[int]
	require.NoError(t, table.Register(numbers, "two", 2, "the only", "even prime"))
	about, err := table.Describe(numbers, "two")
	require.NoError(t, err)
	assert.Equal(t, "the only even prime", about)
	_, err = table.Describe(numbers, "tow")
	require.ErrorIs(t, err, numbers.Unknown)
}

func TestAnUnknownNameIsExplained(t *testing.T) {
	var table byname.Table[int]
	table.Fill(map[string]byname.Entry[int]{"seven": {Value: 7}, "eleven": {Value: 11}})
	_, err := table.Get(numbers, "sevn")
	require.ErrorIs(t, err, numbers.Unknown)
	assert.EqualError(t, err, `math: number "sevn": unknown name, did you mean "seven"? (known: eleven, seven)`)
}

// TestATableMayBeUsedFromManyGoroutines finds unprotected access if run with -race.
func TestATableMayBeUsedFromManyGoroutines(t *testing.T) {
	var table byname.Table[int]
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 {
		all.Go(func() {
			errs <- table.Register(numbers, "same", i+1)
			table.Names()
			_, _ = table.Get(numbers, "same")
		})
	}
	all.Wait()
	close(errs)
	registered := 0
	for err := range errs {
		if err == nil {
			registered++
		}
	}
	assert.Equal(t, 1, registered)
}
