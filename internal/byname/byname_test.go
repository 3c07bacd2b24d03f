package byname_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/byname"
)

var (
	errUnknown   = errors.New("unknown name")
	errDuplicate = errors.New("the name is already registered")
)

type numbers struct{}

func (numbers) Kind() byname.Kind {
	return byname.Kind{Package: "math", Entry: "number", Unknown: errUnknown, Duplicate: errDuplicate}
}

func TestTheZeroTableIsUsable(t *testing.T) {
	var table byname.Table[int, numbers]
	require.Empty(t, table.Names())
	require.NoError(t, table.Register("two", 2))
	require.NoError(t, table.Register("one", 1))
	got, err := byname.Get(&table, "two")
	require.NoError(t, err)
	assert.Equal(t, 2, got)
	assert.Equal(t, []string{"one", "two"}, table.Names())
}

func TestADuplicateNameKeepsTheFirstEntry(t *testing.T) {
	var table byname.Table[int, numbers]
	byname.Fill(&table, map[string]byname.Entry[int]{"one": {Value: 1}})
	err := table.Register("one", 11)
	require.ErrorIs(t, err, errDuplicate)
	assert.EqualError(t, err, `math: register number "one": the name is already registered`)
	got, err := byname.Get(&table, "one")
	require.NoError(t, err)
	assert.Equal(t, 1, got)
}

func TestAnEntryNeedsANameAndAValue(t *testing.T) {
	var table byname.Table[func(), numbers]
	require.ErrorContains(t, table.Register("", func() {}), "a name and a value are needed")
	require.Error(t, table.Register("nothing", nil))
	assert.Empty(t, table.Names())
}

func TestAFactoryMustReturnSomething(t *testing.T) {
	_, err := byname.Made[error](nil, nil)
	require.EqualError(t, err, "its factory returned nil")
	_, err = byname.Made[error](nil, errUnknown)
	require.Equal(t, errUnknown, err)
	made, err := byname.Made(7, nil)
	require.NoError(t, err)
	assert.Equal(t, 7, made)
}

func TestAnEntryHasADescription(t *testing.T) {
	var table byname.Table[int, numbers]
	require.NoError(t, table.Register("two", 2, "the only", "even prime"))
	about, err := table.Describe("two")
	require.NoError(t, err)
	assert.Equal(t, "the only even prime", about)
	_, err = table.Describe("tow")
	require.ErrorIs(t, err, errUnknown)
}

func TestAnUnknownNameIsExplained(t *testing.T) {
	var table byname.Table[int, numbers]
	byname.Fill(&table, map[string]byname.Entry[int]{"seven": {Value: 7}, "eleven": {Value: 11}})
	_, err := byname.Get(&table, "sevn")
	require.ErrorIs(t, err, errUnknown)
	assert.EqualError(t, err, `math: number "sevn": unknown name, did you mean "seven"? (known: eleven, seven)`)
}

// TestATableMayBeUsedFromManyGoroutines finds unprotected access if run with -race.
func TestATableMayBeUsedFromManyGoroutines(t *testing.T) {
	var table byname.Table[int, numbers]
	var all sync.WaitGroup
	errs := make(chan error, 8)
	for i := range 8 {
		all.Go(func() {
			errs <- table.Register("same", i+1)
			table.Names()
			_, _ = byname.Get(&table, "same")
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
