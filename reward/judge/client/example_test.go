package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"vagen/reward"
	"vagen/reward/judge"
	"vagen/reward/judge/client"
)

// A client asks the language model behind an address about claims, and a meter counts them.
// Here the model is a server that always gives the same answer.
func Example() {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices": [{"finish_reason": "stop", "message": {"role": "assistant",
			"content": "[{\"object_id\": \"box\", \"vertical_relation\": \"below\", \"horizontal_relation\": \"left\"}]"}}]}`)
	}))
	defer model.Close()

	block := judge.DefaultStateReward()
	block.JudgeURL, block.JudgeModel = model.URL+"/v1", "any"
	c, err := client.New(&block, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, meter := client.WithMeter(context.Background())
	scorer := judge.Model{Complete: c.Complete}
	scores, err := scorer.Score(ctx, []reward.Claim{{
		Section: reward.SectionObservation, Env: "sokoban", Weight: 1,
		Text: "The box is below me on the left.", Truth: []reward.Relation{reward.Relate("box", 1, -1)},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	u := meter.Usage()
	fmt.Printf("scores %v: %d claim, %d request, %d without a score\n", scores, u.Claims, u.Attempts, u.Missing())
	// Output:
	// scores [1]: 1 claim, 1 request, 0 without a score
}
