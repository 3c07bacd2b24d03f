package processor_test

import (
	"fmt"
	"image"

	"vagen/policy/vlm/processor"
)

func Example() {
	p, err := processor.New(processor.Qwen25VL())
	if err != nil {
		panic(err)
	}
	var patches processor.Patches
	if err := p.Patches(&patches, image.NewGray(image.Rect(0, 0, 320, 240))); err != nil {
		panic(err)
	}
	fmt.Println("patches:", patches.Grid.H, "by", patches.Grid.W)
	fmt.Println("tokens in the text:", p.Tokens(patches.Grid))
	rows := p.Normalize(nil, patches.Pix)
	fmt.Println("pixel values:", len(rows)/p.Dim(), "rows of", p.Dim())
	// Output:
	// patches: 18 by 22
	// tokens in the text: 99
	// pixel values: 396 rows of 1176
}
