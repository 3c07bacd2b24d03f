// Package queue plays the episodes of a rollout.Player in other processes, through NATS
// JetStream.
//
//	trainer ── tasks: one episode each ──▶ JetStream ──▶ workers, with environments and a policy
//	        ◀── results: parquet rows ──── JetStream ◀── images, by the hash of their pixels
//
// A Queue is the trainer's side and a rollout.Dealer; Work is a worker. The server is one by
// URL, or one that Open starts in the process of the trainer.
//
// Tasks are delivered at least once, and every episode of a batch has exactly one result: the
// first valid one that arrives. A task is identified by its batch and its number there; the
// batch by the run, its tag (the step), its seed, the settings and the episodes. Results of a
// batch stay on the server until the next batch, so that a trainer that was killed and resumes
// with the same batch plays only what is missing.
//
// A worker extends the lease of its tasks while it plays them. The lease of a dead worker
// ends, and its tasks are delivered again. A task that ended its worker Options.Tries times,
// or failed as often, becomes an unusable episode (rollout.EndWorker). All waiting uses the
// clocks of the server and of the process that waits; times of different machines are never
// compared.
//
// Workers report that they run, and why they end. A batch whose workers ended with errors does not
// wait for ever: see Options.NoWorkers.
//
// Sampling is keyed by seed, group and index, so which worker plays an episode, how many
// there are and how often they die changes no result if the policy is deterministic.
//
// With a result a worker may send a report of what an episode used (Opened.Observe, Options.Done).
//
// Results are not trusted: what cannot be a result of its task is counted as a failure of
// the worker. A report that workers ended is rejected if it arrives before their
// leases could expire.
// Objects whose chunks are missing are not waited for.
package queue
