package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"vagen/internal/cli"
	"vagen/internal/field"
	"vagen/internal/keyenv"
	"vagen/train/queue"
	"vagen/train/worker"
)

func workerCommand() *cli.Command {
	return &cli.Command{
		Name:  "worker",
		About: "Play the episodes of a trainer, on this machine or another.",
		Help: `The trainer has run.queue in its configuration: the same URL, or embedded, then the
trainer's log has the URL. Everything else comes from the trainer: environments, harness,
sampling, and the vLLM or SGLang servers that generate the responses. The folder of the
model, of which only tokenizer and image processor are read, must exist here, too, or be
given with --model.

Keys of services come from this process's environment, under the names in the trainer's
configuration, but only those that --allow-key names, and only for its addresses: who
controls the queue must not be able to read this environment. A path does not count.

An embedded queue without a key of yours makes its own, which only your user can read. A
worker on the trainer's machine is given its file, that the trainer's log names.

Workers may start before the trainer, and may end at any time: their episodes are played
by others. On SIGTERM or Ctrl-C no more episodes are started, and those being played
may take up to --drain-timeout.

  vagen worker --queue nats://127.0.0.1:4222 --key-file RUN/queue/key --workers 16
  vagen worker --queue nats://trainer:4222 --key-env QUEUE_KEY --allow-key VLLM_KEY=http://gpu1:8000,http://gpu2:8000`,
		Setup: func(f *flag.FlagSet) cli.Run {
			o := worker.DefaultOptions()
			f.StringVar(&o.URL, "queue", "", "`URL` of the queue, such as nats://host:4222; several with commas")
			f.StringVar(&o.Name, "name", o.Name, "name of the queue, run.queue_options.name of the trainer")
			f.IntVar(&o.Slots, "workers", o.Slots, "episodes played at a time")
			f.StringVar(&o.Model, "model", "", "`folder` with tokenizer and image processor; empty is that of the trainer")
			f.StringVar(&o.Creds, "creds", "", "`file` with credentials in NATS's format")
			f.StringVar(&o.User, "user", "", "user `name`, with the password in --key-env")
			keyEnv := f.String("key-env", "", "environment `variable` with the token or the password")
			f.StringVar(&o.KeyFile, "key-file", "", "`file` with the token or the password, for which the worker waits")
			f.Func(
				"allow-key",
				"environment variable that may be sent to these addresses: `NAME=ADDRESS,…`; may be repeated",
				o.Keys.Set,
			)
			f.StringVar(&o.CA, "tls-ca", "", "PEM `file` with the authorities that sign the server's certificate")
			f.StringVar(&o.Cert, "tls-cert", "", "PEM `file` with this client's certificate")
			f.StringVar(&o.CertKey, "tls-key", "", "PEM `file` with its key")
			f.DurationVar(&o.Drain, "drain-timeout", o.Drain, "time for episodes being played when the worker stops")
			discard := f.String("discard", "", "remove the queue of the run with this `id`, which will not be resumed, and exit")
			return func(ctx context.Context, c *cli.Call) error {
				o.Log = c.Log
				if o.URL == "" {
					return cli.Usagef("--queue is missing, must be a URL such as nats://host:4222")
				}
				var err error
				if *keyEnv != "" {
					if o.Key, err = keyenv.Read(*keyEnv); err != nil {
						return cli.Usagef("--key-env: %w", err)
					}
				}
				if *discard == "" {
					err = worker.Work(ctx, o)
				} else if err = c.Idle("--discard plays no episodes", "workers", "model", "allow-key", "drain-timeout"); err == nil {
					err = queue.Discard(ctx, o.Connection, *discard)
				}
				if errors.Is(err, queue.ErrAccess) && o.Key == "" && o.KeyFile == "" && o.Creds == "" {
					err = fmt.Errorf("%w: give --key-file, which the trainer's log names, or --key-env", err)
				}
				return asUsage(field.Renamed(err, workerFlags), queue.ErrOption)
			}
		},
	}
}

// workerFlags are the flags of the options of a worker.
var workerFlags = map[string]string{
	"URL": "--queue", "Name": "--name", "Slots": "--workers", "Creds": "--creds", "User": "--user", "Key": "--key-env",
	"KeyFile": "--key-file", "CA": "--tls-ca", "Cert": "--tls-cert", "CertKey": "--tls-key", "Drain": "--drain-timeout",
}
