package lifecycle_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nodehitch/nodehitch/controller/lifecycle/lifecycletest"
	"github.com/nodehitch/nodehitch/shared/api"
)

// What the first convergence of one instance costs for each of its servers, enrollment and
// all: it should not grow with the number of servers.
func BenchmarkFirstConvergence(b *testing.B) {
	for name, spec := range map[string]func(*api.Topology) api.InstanceSpec{"": lifecycletest.Spec, "members of a cluster ": lifecycletest.WithMembers} {
		benchmarkFirstConvergence(b, name, spec)
	}
}

func benchmarkFirstConvergence(b *testing.B, name string, spec func(*api.Topology) api.InstanceSpec) {
	for _, servers := range []int{50, 200, 500} {
		b.Run(name+fmt.Sprint(servers), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := lifecycletest.New(b)
				topology := lifecycletest.TopologyOf(lifecycletest.Server(lifecycletest.StorageServer, "storage"), lifecycletest.Server(lifecycletest.MasterServer, "master"))
				for i := range servers - len(topology.Servers) {
					topology.Servers = append(topology.Servers, lifecycletest.Server(lifecycletest.UUID(3, i+1), "worker"))
				}
				b.StartTimer()
				before := cpuTime(b)
				w.Put(spec(topology))
				w.Upload(lifecycletest.ScriptFile, "#!/bin/sh\n")
				op := w.Post(lifecycletest.Request(api.Instantiate, api.PhaseEnd))
				w.Converge(lifecycletest.MasterServer)
				for _, s := range topology.Servers {
					w.Converge(s.ID)
				}
				if got := w.Operation(op.ID); got.State != api.Completed {
					b.Fatalf("INSTANTIATE END is %+v, want COMPLETED", got)
				}
				b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(servers), "cpu-µs/server")
			}
		})
	}
}

// cpuTime is what this process has used of the processors.
func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
