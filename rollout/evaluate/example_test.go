package evaluate_test

import (
	"fmt"
	"strings"

	"vagen/rollout/evaluate"
)

// A report has a row for each task and model.
func ExampleReport_WriteText() {
	r := evaluate.Report{Level: 0.95, Rows: []evaluate.Row{{Tag: "val", Model: "mine", Episodes: 8}}}
	var text strings.Builder
	if err := r.WriteText(&text); err != nil {
		fmt.Println(err)
	}
	fmt.Println(strings.Fields(strings.Split(text.String(), "\n")[1])[:3])
	// Output: [val mine 8]
}
