// Package gateway lets agents that nobody rewrote play episodes: a program that talks to a language
// model over OpenAI's chat completions or Responses, or over Anthropic's messages, talks to the
// policy that is trained instead, by another base URL.
//
// A Gateway serves the protocols and is the factory of an environment. A rollout.Player plays its
// episodes like those of every environment: Begin starts the agent, Reset waits for its first call, each
// answer is a turn, and the agent's end is the end of the episode. So budgets, groups, filters, stores
// and estimators work as ever, and the policy answers all agents in batches. See rollout.Caller.
//
//	POST /episodes                  a waiting episode: {"id", "url", "base_url", "key", "task", "seed", …}; 429 if none waits
//	…/episodes/ID/v1/…              the protocols: chat/completions, responses, messages, models
//	POST /episodes/ID/reward        {"reward": 1}, with "answer": id for a turn
//	POST /episodes/ID/finish        {"reward": 1, "success": true}; both may be left out
//	/v1/…                           the protocols for clients whose API key is the episode's
//
// # Rows
//
// Clients send the whole conversation with each call, and most of them change what they send back:
// reasoning is lost, arguments of calls are serialised again, white space changes. The gateway looks up
// which recorded call the conversation continues, and the policy continues with the tokens that
// were recorded; an answer that came back is never tokenised again. Calls of one episode form a
// tree: one may continue a row, fork one, or begin one. A retry gets the answer that was lost.
// Answers that did not arrive, and those without a successor or a reward beside one in the same place that
// has a successor, are discarded at the end.
//
// # Sampling
//
// Temperature, top-p, lengths and the effort of reasoning are those of the player. Requests that ask for others are
// counted as agent/overridden, and by the field's name. A stop text ends the response, with its tokens in the row.
// Requests that demand a form of answers, such as tool_choice required or a strict schema, are refused, or sampled
// like others and counted as agent/constrained, see Options.Constraints.
package gateway
