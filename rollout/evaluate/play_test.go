package evaluate

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/rollout"
)

// asked is a counter that returns the key of the conversation.
type asked struct{ policy.Policy }

func (asked) Count(p policy.Prompt) (int, error) { return int(p.Conversation), nil }

// TestTokensAreCountedInTheEpisodesOwnConversation, the one that its responses are sampled in.
func TestTokensAreCountedInTheEpisodesOwnConversation(t *testing.T) {
	n, err := countingPolicy{&episodePolicy{base: 100}, asked{}}.Count(policy.Prompt{Conversation: 7})
	require.NoError(t, err)
	require.Equal(t, 107, n)
}

// TestErrorsAreStoredWithoutSecrets of URLs.
func TestErrorsAreStoredWithoutSecrets(t *testing.T) {
	r := resultOf(&rollout.Trajectory{Err: errors.New("GET http://a:secret@b/?token=secret")}, policy.Usage{})
	require.Contains(t, r.Error, "GET http://")
	require.NotContains(t, r.Error, "secret")
}
