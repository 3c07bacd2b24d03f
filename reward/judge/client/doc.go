// Package client asks a language model behind an OpenAI-compatible address about claims,
// for judge.Model. A judge is outside of the program, and may be slow, overloaded, down, or
// answer nonsense; a training step must neither wait for it nor mistake that for a claim
// that is wrong. New makes a Client of a block state_reward; Client.Complete is the Completer
// of judge.Model. A claim that gets no valid answer has no score, and is counted:
//
//   - An attempt that failed is repeated after a growing delay, or after the one that the
//     service asks for. Answers of a wrong form count as failures.
//   - When several attempts in a row find no working service, nothing is sent for a while:
//     claims have no score at once. Then one request tests the service.
//   - A step may wait for the judge for a limited time, see Meter. The remaining claims of
//     the step have no score.
//   - Valid answers are kept in a folder, if one is set, and are not asked for again.
//
// A Meter counts the claims of a step without a score by Cause. The key of the service is
// read from an environment variable, and appears in no error and no log.
package client
