package cleanup

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/controller/action/deletion"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/paging"
	"curfew.dev/curfew/controller/pause"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Account are the clients that act as one service account (S10).
type Account struct {
	Name     types.NamespacedName
	Objects  dynamic.Interface
	Metadata metadata.Interface
	Delete   action.Action
	// Lacks returns the permissions that the account does not have in a namespace, or with "" in
	// all.
	Lacks func(ctx context.Context, namespace string, needs []permission.Need) ([]permission.Need, error)
	// Exists returns the UID of the account, or [errForbidden] if there is none. The API server lets
	// Curfew act as an account that was deleted, by the bindings that still name it.
	Exists func(ctx context.Context) (types.UID, error)
}

// exists reads a service account with Curfew's own rights.
func exists(client metadata.Interface, name types.NamespacedName) func(context.Context) (types.UID, error) {
	accounts := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(name.Namespace)
	return func(ctx context.Context) (types.UID, error) {
		account, err := accounts.Get(ctx, name.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && account.DeletionTimestamp != nil:
			return "", fmt.Errorf("service account %s does not exist: %w", name, errForbidden)
		case err != nil:
			return "", fmt.Errorf("reading service account %s: %w", name, err)
		}
		return account.UID, nil
	}
}

// reader reads as an account.
type reader struct {
	survey.Clients
	account *Account
}

// Lacks implements survey.Reader.
func (r reader) Lacks(ctx context.Context, resource schema.GroupVersionResource, namespace string, verbs ...string) (string, error) {
	for _, verb := range verbs {
		missing, err := r.account.Lacks(ctx, namespace, []permission.Need{{Verb: verb, Resource: resource}})
		if err != nil || len(missing) > 0 {
			return verb, err
		}
	}
	return "", nil
}

// maxAccounts is how many accounts keep their clients.
const maxAccounts = 256

// Accounts makes clients that impersonate service accounts. The API server grants that by the verb
// impersonate on serviceaccounts; without it every request of such a client is forbidden.
type Accounts struct {
	config *rest.Config
	// own is the account of policies that name none.
	own types.NamespacedName
	// wrap adds to each deletion what Curfew does with its own rights.
	wrap  func(action.Action) action.Action
	clock clock.PassiveClock
	// permissions remembers what the accounts may do.
	permissions *permission.Cached

	mu    sync.Mutex
	known *lru.Cache
}

// NewAccounts makes accounts for an API server. Policies that name no account use Curfew's own.
func NewAccounts(config *rest.Config, own types.NamespacedName, wrap func(action.Action) action.Action, clock clock.PassiveClock) *Accounts {
	return &Accounts{config: config, own: own, wrap: wrap, clock: clock, permissions: permission.NewCached(clock), known: lru.New(maxAccounts)}
}

// Of returns the clients of a service account; the zero name is Curfew's own.
func (a *Accounts) Of(name types.NamespacedName) (*Account, error) {
	if name.Name == "" {
		name = a.own
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.known.Get(name); ok {
		if account, ok := known.(*Account); ok {
			return account, nil
		}
	}
	account, err := a.make(name)
	if err != nil {
		return nil, fmt.Errorf("clients of service account %s: %w", name, err)
	}
	a.known.Add(name, account)
	return account, nil
}

func (a *Accounts) make(name types.NamespacedName) (*Account, error) {
	own, err := metadata.NewForConfig(a.config)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(a.config)
	config.Wrap(paging.Cap)
	// The API server adds the groups of a service account.
	config.Impersonate = rest.ImpersonationConfig{UserName: fmt.Sprintf("system:serviceaccount:%s:%s", name.Namespace, name.Name)}
	client, err := deletion.NewClient(config)
	if err != nil {
		return nil, err
	}
	deletes, err := deletion.New(client, a.clock, nil)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	authorization, err := authorizationclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	reviews := permission.Reviews{Access: authorization.SelfSubjectAccessReviews()}
	return &Account{
		Name: name, Objects: objects, Metadata: partial, Delete: a.wrap(deletes), Exists: exists(own, name),
		Lacks: func(ctx context.Context, namespace string, needs []permission.Need) ([]permission.Need, error) {
			return a.permissions.LacksIn(ctx, name.String(), reviews, namespace, needs)
		},
	}, nil
}

// Action deletes what a run submits, as the account of the run.
type Action struct{}

// Do implements action.Action.
func (Action) Do(ctx context.Context, due action.Due) action.Result {
	batch, ok := due.Run.(*batch)
	if !ok {
		return action.Result{Outcome: action.Refused, Err: fmt.Errorf("%T is no batch of a cleanup run: this is a bug", due.Run)}
	}
	if !batch.run.c.unchanged(batch.run.policy) {
		// Suspended, edited or deleted: the live judgement, which follows a conflict, keeps the object.
		return action.Result{Outcome: action.Conflict, Err: errChanged}
	}
	if !batch.confirmed(ctx) {
		return action.Result{Outcome: action.Held, Err: pause.ErrHeld} // Nothing is sent: see decide.
	}
	result := batch.run.account.Delete.Do(ctx, due)
	if pause.HeldIn(ctx) {
		return action.Result{Outcome: action.Held, Err: pause.ErrHeld}
	}
	batch.answered(due.UID, result)
	return result
}

const (
	// permissionsEvery is how often the permissions of a policy are checked between its runs, plus up
	// to a fifth by chance.
	permissionsEvery = 5 * time.Minute
	// maxLacks is how many missing permissions a condition names.
	maxLacks = 3
)

// errDue ends a review of permissions.
var errDue = errors.New("the next run is due")

// review checks the permissions of a policy some minutes after the last time, or after a change. It
// has turns of its own, so that no run waits for it, and ends when the policy's next run is due,
// which checks them itself.
func (c *Controller) review(ctx context.Context, cur *current, left time.Duration) error {
	if !c.permissionsDue(cur) {
		return nil
	}
	cur.turn.end()
	ctx, cancel := context.WithTimeoutCause(ctx, left, errDue)
	defer cancel()
	turn, err := c.reviews.take(ctx, cur.policy.Namespace)
	if err == nil {
		defer turn.end()
		err = c.checkPermissions(ctx, cur)
	}
	switch {
	case err == nil:
		c.permissionsChecked(cur)
	case errors.Is(context.Cause(ctx), errDue):
		return nil
	}
	return err
}

// checkPermissions sets PermissionsGranted between runs, so that a missing permission shows before
// the first night.
func (c *Controller) checkPermissions(ctx context.Context, cur *current) error {
	r, err := c.newRun(cur, &v1alpha1.CleanupRun{})
	if err != nil {
		return err
	}
	r.newSurvey(maxLacks)
	var lacks []string
	if _, err = r.account.Exists(ctx); err == nil {
		lacks, err = r.survey.Open(ctx)
	}
	message := r.mayNot(lacks)
	switch {
	case isForbidden(err):
		message = err.Error()
	case err != nil:
		return err
	}
	after := cur.ledger.status()
	cur.permitted(after, message)
	if equalStatus(after, cur.ledger.status()) {
		return nil
	}
	return cur.ledger.change(ctx, func(s *v1alpha1.CleanupPolicyStatus) { cur.permitted(s, message) })
}

// permissionsDue reports whether the permissions of a policy should be checked now, because it has
// changed or it was checked some minutes ago.
func (c *Controller) permissionsDue(cur *current) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.checked[cur.policy.UID]
	return !ok || last.generation != cur.policy.Generation || !cur.now.Before(last.until) || cur.now.Before(last.at)
}

func (c *Controller) permissionsChecked(cur *current) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.checked) >= maxChecked {
		clear(c.checked)
	}
	// #nosec G404 -- jitter.
	wait := permissionsEvery + time.Duration(rand.Int64N(int64(permissionsEvery/5)))
	c.checked[cur.policy.UID] = checked{cur.policy.Generation, cur.now, cur.now.Add(wait)}
}

// checked is when the permissions of a generation of a policy were checked, and until when that
// counts.
type checked struct {
	generation int64
	at, until  time.Time
}

// maxChecked bounds how many policies are remembered, deleted ones included.
const maxChecked = 10_000

// mayNot says what the account lacks; empty for nothing.
func (r *run) mayNot(lacks []string) string {
	if len(lacks) == 0 {
		return ""
	}
	return fmt.Sprintf("service account %s may not %s", r.account.Name, strings.Join(lacks[:min(maxLacks, len(lacks))], ", "))
}
