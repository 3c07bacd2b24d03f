// Package mpi calls the Message Passing Interface of the system (Open MPI or MPICH), with which mpirun, Slurm's
// srun and Kubeflow's MPI operator start processes on several hosts.
//
// Its calls are compiled with the build tag mpi only, which needs cgo and MPI's headers: Open MPI's, or MPICH's
// with the tag mpich, too. Without the tag Start returns ErrUnavailable.
//
// Every call into MPI is short: a transfer is started, and then tested until it is complete. So any goroutine may
// call, a mutex serialises the calls (MPI_THREAD_SERIALIZED), and a process that waits can sleep, where MPI's own
// blocking calls keep a processor busy.
package mpi
