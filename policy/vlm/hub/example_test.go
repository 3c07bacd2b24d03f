package hub_test

import (
	"fmt"

	"vagen/policy/vlm/hub"
)

// IsID tells a model of the hub from a folder.
func ExampleIsID() {
	fmt.Println(hub.IsID("Qwen/Qwen2.5-VL-3B-Instruct"), hub.IsID("/models/mine"))
	// Output: true false
}
