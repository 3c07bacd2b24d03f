// Package mask records who wrote which token of a training row, and derives
// from that record every mask that training needs.
//
// A row is a conversation: context that the model read (system prompt,
// observations, template tokens) and responses that the model wrote. Marks put
// into the text to find the responses again are fragile: truncation drops them,
// retokenisation moves them. A [Sequence] is filled while the tokens are
// produced, and holds each token together with its kind, its turn and the spans
// it belongs to. Its length is the length of every mask derived from it,
// because there is nothing else that they could be derived from.
//
//	var s mask.Sequence
//	s.AppendContext(mask.Prompt, prompt...)        // system prompt, first observation
//	s.AppendResponse(reply...)                     // one turn; its last token is the turn end
//	s.AppendContext(mask.Observation, answer...)   // what the environment said
//	s.AppendResponse(reply2...)
//	loss = s.Loss(loss[:0], mask.Options{UseLossMask: true})
//
// The masks, one entry per token:
//
//	Response    written by the model
//	Loss        Response, or every token when the loss mask is off
//	Advantage   Response, or every token when the advantage (GAE) mask is off
//	TurnEnd     last token of each turn, where turn rewards sit
//	Value       positions that train the critic
//	Attention   every token: rows are ragged and hold no padding
//	Span        tokens of the spans with one name, for credit per span
//	Seam        end of a summary that closes a conversation
//
// All of them append to the slice they are given and allocate nothing when its
// capacity suffices, so rows can be strung together into one flat array.
//
// Loss mask and advantage mask come from the same response mask and are two
// switches, following VAGEN (arXiv:2510.16907): the first says which tokens
// move the policy, the second over which tokens the advantage recursion steps.
package mask
