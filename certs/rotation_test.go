package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// fleet are replicas that share a Secret and two webhook configurations, and API servers that see
// the configurations late.
type fleet struct {
	t        *testing.T
	client   client.WithWatch
	clock    *clocktesting.FakeClock
	replicas []*SelfSigned
	history  []view
}

// view is what the API servers were told from an instant on.
type view struct {
	since   time.Time
	bundles [][]byte
}

func newFleet(t *testing.T, replicas int) *fleet {
	f := &fleet{t: t, client: fake.NewClientBuilder().WithObjects(mutating("curfew"), validating("curfew")).Build(), clock: clocktesting.NewFakeClock(epoch)}
	for range replicas {
		f.replicas = append(f.replicas, newSelfSigned(t, f.client, f.clock))
	}
	for i := range f.replicas {
		f.pass(i)
	}
	f.history = nil
	f.look()
	return f
}

func (f *fleet) pass(i int) {
	f.t.Helper()
	if _, err := f.replicas[i].pass(f.t.Context()); err != nil && !apierrors.IsConflict(err) {
		f.t.Fatalf("replica %d: %v", i, err)
	}
	f.look()
}

// look notes what the API servers will have heard after settle at the latest.
func (f *fleet) look() {
	configurations, err := f.replicas[0].injector.read(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	f.history = append(f.history, view{f.clock.Now(), bundlesOf(configurations)})
}

// refused says which API server would not take which replica's certificate now, or returns "".
func (f *fleet) refused() string {
	now := f.clock.Now()
	first := 0
	for i, v := range f.history {
		if now.Sub(v.since) >= DefaultSettle {
			first = i
		}
	}
	for i, replica := range f.replicas {
		served, err := replica.GetCertificate(nil)
		if err != nil || !replica.Ready() {
			continue // Nothing is sent to it.
		}
		for _, v := range f.history[first:] {
			for _, bundle := range v.bundles {
				if err := trusts(bundle, served.Leaf, "localhost", now); err != nil {
					return fmt.Sprintf("replica %d, by what the API server was told at %s: %v", i, v.since, err)
				}
			}
		}
	}
	return ""
}

func (f *fleet) secret() *corev1.Secret {
	return get(f.t, f.client, client.ObjectKey{Namespace: "curfew-system", Name: DefaultSecretName}, &corev1.Secret{})
}

// Whatever the order in which replicas act, restart and sleep while the CA rotates by age or
// because a user deletes or damages the Secret: every API server trusts each certificate that is
// served, however late it hears of a new bundle.
func TestRotationNeverCutsOff(t *testing.T) {
	rotations := 0
	rapid.Check(t, func(r *rapid.T) {
		f := newFleet(t, 3)
		signing := string(f.secret().Data[keyCA])
		for step := range rapid.IntRange(10, 25).Draw(r, "steps") {
			what := rapid.SampledFrom([]string{"pass", "pass", "pass", "settle", "settle", "second", "month", "delete", "damage", "restart"}).Draw(r, "what")
			i := rapid.IntRange(0, 2).Draw(r, "replica")
			switch what {
			case "pass":
				f.pass(i)
			case "second":
				f.clock.Step(time.Second)
			case "settle":
				f.clock.Step(DefaultSettle)
			case "month": // Every replica wakes up at least once a minute.
				f.clock.Step(30 * 24 * time.Hour)
				for i := range f.replicas {
					f.pass(i)
				}
			case "delete":
				if err := f.client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "curfew-system", Name: DefaultSecretName}}); client.IgnoreNotFound(err) != nil {
					r.Fatal(err)
				}
				f.pass(i)
			case "damage":
				secret := f.secret()
				key := rapid.SampledFrom([]string{keyCA, keyCAKey, keyBundle, keyNext, keyNextKey, keyRetired}).Draw(r, "key")
				secret.Data[key] = []byte("x")
				if err := f.client.Update(t.Context(), secret); err != nil {
					r.Fatal(err)
				}
				f.pass(i)
			case "restart":
				f.replicas[i] = newSelfSigned(t, f.client, f.clock)
				f.pass(i)
			}
			if now := string(f.secret().Data[keyCA]); now != signing {
				rotations, signing = rotations+1, now
			}
			if refused := f.refused(); refused != "" {
				r.Fatalf("step %d, after %s of %d: %s", step, what, i, refused)
			}
		}
	})
	if rotations < 10 {
		t.Errorf("%d rotations: the test does not test", rotations)
	}
}

// The bundle does not grow for ever, and in the end the first CA is gone.
func TestOldCAsAreDropped(t *testing.T) {
	f := newFleet(t, 2)
	first := f.secret().Data[keyCA]
	most := 0
	for range 10 * 365 / 20 {
		f.clock.Step(20 * 24 * time.Hour)
		for round := range 3 {
			for i := range f.replicas {
				f.pass(i)
			}
			if round < 2 {
				f.clock.Step(DefaultSettle)
			}
		}
		if refused := f.refused(); refused != "" {
			t.Fatal(refused)
		}
		f.history = f.history[len(f.history)-1:]
		bundle, err := certificates(f.secret().Data[keyBundle])
		must(t, err)
		most = max(most, len(bundle))
	}
	old, _ := certificates(first)
	if m, _ := parse(f.secret().Data, f.clock.Now()); most != 2 || m.trusts(old[0]) {
		t.Errorf("up to %d CAs were trusted, want 2; the first one still is: %v", most, m.trusts(old[0]))
	}
}

// A CA that a user puts into the Secret signs nothing that an API server would refuse.
func TestForeignCAIsAdoptedSlowly(t *testing.T) {
	f, other := newFleet(t, 2), newFleet(t, 1)
	secret, foreign := f.secret(), other.secret()
	secret.Data = foreign.Data
	must(t, f.client.Update(t.Context(), secret))
	before, _ := f.replicas[0].GetCertificate(nil)
	f.pass(0)
	if after, _ := f.replicas[0].GetCertificate(nil); !after.Leaf.Equal(before.Leaf) {
		t.Error("a certificate of it is served before a configuration has it")
	}
	f.clock.Step(DefaultSettle)
	for range 2 {
		for i := range f.replicas {
			f.pass(i)
		}
		if refused := f.refused(); refused != "" {
			t.Fatal(refused)
		}
	}
	ca, _ := certificates(foreign.Data[keyCA])
	served, _ := f.replicas[0].GetCertificate(nil)
	roots := x509.NewCertPool()
	roots.AddCert(ca[0])
	if _, err := served.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: f.clock.Now()}); err != nil {
		t.Errorf("in the end: %v", err)
	}
}

// While the Secret cannot be read the certificate is renewed all the same.
func TestRenewsWithoutTheSecret(t *testing.T) {
	f := newFleet(t, 1)
	replica := f.replicas[0]
	replica.options.Client = fakeWithoutSecrets(t)
	f.clock.Step(DefaultServingLifetime * 3 / 4)
	if _, err := replica.pass(t.Context()); err == nil {
		t.Error("no error although the Secret cannot be read")
	}
	served, _ := replica.GetCertificate(nil)
	if want := f.clock.Now().Add(DefaultServingLifetime); !served.Leaf.NotAfter.Equal(want) {
		t.Errorf("it ends %s, want %s", served.Leaf.NotAfter, want)
	}
}

// A CA that is taken out of one webhook is no longer everywhere, and starts again.
func TestTrustIsObserved(t *testing.T) {
	f := newFleet(t, 1)
	m, _ := parse(f.secret().Data, epoch)
	configurations, err := f.replicas[0].injector.read(t.Context())
	must(t, err)
	seen := trust{}.observe(configurations, epoch)
	if since, ok := seen.observe(configurations, epoch.Add(time.Hour)).since(m.signing.certificate); !ok || !since.Equal(epoch) {
		t.Errorf("seen since %s, %v", since, ok)
	}
	configurations[0].(*admissionv1.MutatingWebhookConfiguration).Webhooks[1].ClientConfig.CABundle = nil
	seen = seen.observe(configurations, epoch.Add(2*time.Hour))
	if _, ok := seen.since(m.signing.certificate); ok {
		t.Error("one webhook lacks it")
	}
	if _, ok := (trust{}).since(m.signing.certificate); ok {
		t.Error("nothing was read")
	}
	if since, ok := seen.observe(nil, epoch).since(m.signing.certificate); !ok || !since.Equal(epoch) {
		t.Errorf("without a webhook: since %s, %v", since, ok)
	}
}

// TestImmutableSecretIsReplaced: an immutable Secret blocks the rotation. Once a user deletes it
// the next pass follows at once, however long the loop had backed off.
func TestImmutableSecretIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "curfew-system", Name: DefaultSecretName}, Immutable: new(true)}
		c := fake.NewClientBuilder().WithObjects(mutating("curfew"), secret).Build()
		refused := 0
		immutable := interceptor.NewClient(c, interceptor.Funcs{
			Update: func(context.Context, client.WithWatch, client.Object, ...client.UpdateOption) error {
				refused++
				return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), DefaultSecretName, nil)
			},
		})
		s := newSelfSigned(t, immutable, clock.RealClock{}) // the bubble's clock
		stopped := make(chan error, 1)
		go func() { stopped <- s.Start(ctx) }()
		time.Sleep(10*time.Minute + 5*time.Second)
		if few := refused; s.Ready() || few < 10 || few > 40 {
			t.Errorf("ready %t after %d writes were refused, want the loop to back off", s.Ready(), few)
		}
		must(t, c.Delete(ctx, secret))
		time.Sleep(2 * calm)
		synctest.Wait()
		if !s.Ready() {
			t.Error("not ready two seconds after the Secret was deleted")
		}
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("Start: %v", err)
		}
	})
}
