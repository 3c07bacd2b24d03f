package chat

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/reward"
	"vagen/reward/judge"
)

// A service with OpenAI's API judges claims: statements that it answers are scored, others
// have no score, and no conversation remains.
func TestServiceJudgesClaims(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Messages []struct{ Role, Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.Messages) != 1 || in.Messages[0].Role != "user" {
			t.Errorf("request %+v, error %v", in, err)
		}
		if strings.Contains(in.Messages[0].Content, "lost") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		answer, _ := json.Marshal("[{\"object_id\": \"box\", \"vertical_relation\": \"below\", \"horizontal_relation\": \"left\"}]")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":`+string(answer)+`},"finish_reason":"stop"}]}`)
	}))
	defer server.Close()
	m := newModel(t, options(t, OpenAI, server.URL))
	j := &judge.Model{Complete: policy.Ask(m, policy.Sampling{MaxTokens: 512})}
	truth := []reward.Relation{reward.Relate("box", 1, -1)}
	scores, err := j.Score(t.Context(), []reward.Claim{{Env: "sokoban", Text: "it is there", Truth: truth}, {Env: "sokoban", Text: "lost", Truth: truth}})
	require.NoError(t, err)
	require.Equal(t, 1.0, scores[0])
	require.NotEqual(t, scores[1], scores[1], "NaN: no score")
	require.Empty(t, m.chats)

	server.Close()
	j.Complete = policy.Ask(newModel(t, options(t, OpenAI, server.URL)), policy.Sampling{MaxTokens: 512})
	_, err = j.Score(t.Context(), []reward.Claim{{Env: "sokoban", Text: "it is there", Truth: truth}})
	require.ErrorIs(t, err, ErrUnreachable)
}
