package answer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func Example() {
	list, ok := List("I read it.\n\nOutput JSON:\n```json\n[{\"object_id\": \"box\"}]\n```")
	fmt.Println(list, ok)
	// Output:
	// [map[object_id:box]] true
}

func TestExtractionEndsOnHostileAnswers(t *testing.T) {
	for _, text := range []string{strings.Repeat("[", 1<<17), strings.Repeat(`["`, 1<<16),
		strings.Repeat("[]x[1]", 1<<15) + `[{}]`,
		strings.Repeat("```json", 1<<14), announced + strings.Repeat("```json [1] ```", 1<<13)} {
		list, ok := List(text)
		require.True(t, !ok || len(list) == 0)
	}
}

func FuzzList(f *testing.F) {
	f.Add("Output JSON:\n```json\n[{\"a\": NaN}]\n```")
	f.Add(`[[{"k":"]"}]]`)
	f.Add(`[{"a\":-Infinity,"b":Infinity}]`)
	f.Fuzz(func(t *testing.T, text string) {
		if list, ok := List(text); !ok && list != nil {
			t.Errorf("a list of %d without success", len(list))
		}
	})
}
