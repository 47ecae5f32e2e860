package settings

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/wellknown"
)

// Name of the ConfigMap. The controller's Role allows no other.
const Name = "curfew-settings"

// Keys beside the names of flags.
const (
	// User is the controller's user name.
	User    = "user"
	Version = "version"
)

// Resource is the resource of ConfigMaps.
var Resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const (
	fieldManager = "curfew-controller"
	// applyEvery restores a report that another writer changed or deleted.
	applyEvery = 10 * time.Minute
	// reportEvery is how often the report is made. It is written where it differs.
	reportEvery = time.Minute
	// gather is how long a change waits for others.
	gather = time.Second
)

// Of returns the effective values of flags, in a form that their flags accept. Lists are joined by
// commas.
func Of(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.VisitAll(func(flag *pflag.Flag) {
		switch list, ok := flag.Value.(pflag.SliceValue); {
		case flag.Name == "help", flag.Name == "kubeconfig": // of no interest, and a path of this machine
		case ok:
			out[flag.Name] = strings.Join(list.GetSlice(), ",")
		default:
			out[flag.Name] = flag.Value.String()
		}
	})
	return out
}

// Publisher writes the settings. It runs on the leader only, whose settings are the effective ones.
type Publisher struct {
	ConfigMaps dynamic.ResourceInterface
	// User asks the API server for the controller's user name.
	User func(ctx context.Context) (string, error)
	Data map[string]string
	// Report returns the state of the controller; nil means that none is published.
	Report func() Report
	// Changed has the report made at once.
	Changed loop.Signal
	Clock   clock.Clock
	Log     logr.Logger

	// Only the loop uses these.
	written string
	at      time.Time
}

// Run applies the settings until ctx is done.
func (p *Publisher) Run(ctx context.Context) error {
	worker := loop.Worker{
		Clock: p.Clock, Signal: p.Changed, Gather: gather, Backoff: loop.NewBackoffOf(time.Second, applyEvery), Do: p.reconcile,
		Failed: func(err error, again time.Duration) {
			p.Log.Error(err, "could not publish the settings, trying again", "configMap", Name, "after", again)
		},
	}
	p.Changed.Set()
	worker.Run(ctx)
	return nil
}

// reconcile writes the settings where the report has changed, or they have not been written for
// long.
func (p *Publisher) reconcile(ctx context.Context) (time.Duration, error) {
	now := p.Clock.Now()
	if p.Report == nil {
		return applyEvery, p.apply(ctx, nil)
	}
	text, err := json.Marshal(p.Report())
	if err != nil {
		return 0, fmt.Errorf("writing the report: %w", err)
	}
	if string(text) == p.written && now.Sub(p.at) < applyEvery {
		return reportEvery, nil
	}
	if err := p.apply(ctx, map[string]any{ReportKey: string(text), ReportedAt: now.UTC().Format(time.RFC3339)}); err != nil {
		return 0, err
	}
	p.written, p.at = string(text), now
	return reportEvery, nil
}

// apply is a server-side apply, which takes no right to read, and creates by name.
func (p *Publisher) apply(ctx context.Context, report map[string]any) error {
	user, err := p.User(ctx)
	if err != nil {
		return fmt.Errorf("asking the API server who Curfew is: %w", err)
	}
	data := map[string]any{User: user}
	for key, value := range p.Data {
		data[key] = value
	}
	maps.Copy(data, report)
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("v1")
	object.SetKind("ConfigMap")
	object.SetName(Name)
	object.SetLabels(map[string]string{wellknown.LabelPartOf: wellknown.PartOfCurfew, "app.kubernetes.io/name": "curfew", "app.kubernetes.io/component": "controller"})
	object.Object["data"] = data
	_, err = p.ConfigMaps.Apply(ctx, Name, object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}
