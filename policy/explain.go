package policy

import (
	"fmt"
	"strings"
	"time"
)

// Explanation says of one object what each level of precedence says, which of them decides, and what comes of it. It decides nothing
// itself: that is for [Resolve], [Judge], [JudgeLabel] and [JudgeDeadline], whose answers it holds.
type Explanation struct {
	Facts     *Facts
	Scope     *Scope
	Effective Effective

	// TTL are the levels in their order, for a TTL after finished; empty for kinds that never finish.
	TTL []Said
	// Deadline are the levels for a deadline; empty for kinds that have none.
	Deadline []Said
	// LabelKey is the label that speaks, [LabelTTL] or its alias; "" where the object has none.
	LabelKey string
	// Bounds that values of the object must lie within, and that defaults are moved into.
	Bounds []*Setting
	// NoDefault is why the object is given no default, such as "is owned by JobSet a"; "" where it may be given one.
	NoDefault string

	// ByTTL, ByLabel and ByDeadline are what is to become of the object, by each trigger.
	ByTTL, ByLabel, ByDeadline Verdict
}

// Said is what one level of precedence says.
type Said struct {
	Source Source
	// Settings that the level has; none where it says nothing.
	Settings []*Setting
	// Decides is set on the level whose word holds, also where that word is that there is no value.
	Decides bool
	// Why says what there is to know beside the settings: why the level is not asked, does not reach the object, or decides.
	Why string
}

// Question is what an explanation is asked for, beside the object.
type Question struct {
	// Alias says that the label cleanup.kyverno.io/ttl is understood.
	Alias bool
	// Grace is how long after its deadline the kind's own controller is left to itself.
	Grace time.Duration
	Now   time.Time
}

// Explain answers for one object.
func Explain(facts *Facts, scope *Scope, question Question) *Explanation {
	e := &Explanation{Facts: facts, Scope: scope, Effective: Resolve(facts, scope), NoDefault: noDefaultPhrase(facts)}
	e.Bounds = scope.BoundsFor(facts).Settings()
	if facts.Profile.Finishable() {
		e.TTL = e.ttlLevels()
		e.ByTTL = Judge(facts, &e.Effective, question.Now)
	} else {
		e.ByTTL = keep("a " + facts.Profile.Kind.Kind + " does not finish")
	}
	if facts.Profile.HasDeadline() {
		e.Deadline = e.deadlineLevels()
		e.ByDeadline = JudgeDeadline(facts, &e.Effective, question.Grace, question.Now)
	} else {
		e.ByDeadline = keep("a " + facts.Profile.Kind.Kind + " has no deadline")
	}
	key := LabelTTL
	if _, ok := facts.Labels[LabelTTL]; !ok && question.Alias {
		key = LabelKyvernoTTL
	}
	if _, ok := facts.Labels[key]; ok {
		e.LabelKey = key
	}
	e.ByLabel = JudgeLabel(facts, key, scope, question.Now)
	return e
}

// Goes is what deletes the object, the earliest of its triggers; ok is false where nothing does.
func (e *Explanation) Goes() (Verdict, bool) {
	var out Verdict
	found := false
	for _, verdict := range []Verdict{e.ByTTL, e.ByLabel} {
		if verdict.Action != Wait && verdict.Action != Delete {
			continue
		}
		if !found || verdict.Expiry.Before(out.Expiry) {
			out, found = verdict, true
		}
	}
	return out, found
}

// ttlLevels go through the levels as resolveTTL does, which decides.
func (e *Explanation) ttlLevels() []Said {
	runtime, object := e.runtimeSays(), e.objectSays()
	levels := []Said{runtime, object}
	decided := runtime.Decides || object.Decides
	if runtime.Decides {
		levels[1] = object.overruled("the runtime decides")
	}
	levels = append(levels, e.defaultsSay(decided)...)
	for i := range levels {
		if said := &levels[i]; said.Decides && said.Why == "" && e.Facts.Finished && !e.Effective.TTL(e.Facts.Outcome).Set {
			said.Why = "it has no value for what " + e.Facts.Outcome.String()
		}
	}
	return levels
}

func (e *Explanation) runtimeSays() Said {
	said := Said{Source: Source{Level: LevelRuntime}}
	runtime := e.Scope.Runtime
	switch {
	case runtime == nil:
		said.Why = "it uses none"
	case e.Facts.ForeignManager() != "":
		said.Source.Name, said.Settings = runtime.Name, runtime.TTL.Settings()
		said.Why = "not asked: the object is managed by " + e.Facts.ForeignManager()
	case runtime.Missing:
		said.Source.Name, said.Decides = runtime.Name, true
		said.Why = "it does not exist, or cannot be told: the object is kept"
	default:
		said.Source.Name, said.Settings = runtime.Name, runtime.TTL.Settings()
		said.Decides = len(said.Settings) > 0
	}
	return said
}

func (e *Explanation) objectSays() Said {
	said := Said{Source: Source{Level: LevelObject}, Settings: e.Facts.TTLs().Settings()}
	source, stamped := defaultSource(e.Facts.Annotations, AnnotationTTLSource)
	stamp := stamped && !e.Scope.Creating
	switch {
	case len(said.Settings) > 0:
		said.Decides = true
		if stamp {
			said.Why = "filled in at its creation from " + source.Phrase()
			if !e.stillSays(source) {
				said.Why += ", or changed since"
			}
		}
	case e.stamped():
		said.Decides = true
		said.Why = "its value was taken away after its creation, which means none"
	}
	return said
}

// stillSays tells whether a level would give the object now what it carries by its stamp. Where it would not, one of the two was changed
// since the creation: the stamp stays as it is when somebody gives the object another TTL. A level that says nothing now proves nothing.
func (e *Explanation) stillSays(source Source) bool {
	creating := *e.Scope
	creating.Creating = true
	own := e.Facts.TTLs()
	for _, outcome := range []Outcome{Succeeded, Failed} {
		gives, has := defaultTTL(e.Facts, &creating, outcome), own.For(outcome)
		switch {
		case gives.Source != source || gives.Err != nil:
			return true
		case gives.Set != (has != nil) || has != nil && gives.TTL != has.TTL:
			return false
		}
	}
	return true
}

// noDefaultPhrase is [NoDefault] as the end of a sentence about the object.
func noDefaultPhrase(facts *Facts) string {
	reason := NoDefault(facts)
	switch {
	case reason == "", strings.HasPrefix(reason, "is "):
		return reason
	case strings.HasPrefix(reason, "restartPolicy "):
		return "has " + reason
	default:
		return "is " + reason
	}
}

func (e *Explanation) stamped() bool { return stamped(e.Facts, e.Scope) }

// overruled is a level that another one leaves without a say.
func (s Said) overruled(why string) Said {
	if s.Decides || len(s.Settings) > 0 {
		s.Decides, s.Why = false, "not asked: "+why
	}
	return s
}

// defaultsSay are the namespace and the policies.
func (e *Explanation) defaultsSay(decided bool) []Said {
	var out []Said
	why := "a level above decides"
	if !decided && e.NoDefault != "" {
		decided, why = true, "no default, as the object "+e.NoDefault
	}
	take := func(said Said) {
		switch {
		case len(said.Settings) == 0:
		case decided:
			said = said.overruled(why)
		default:
			decided, why, said.Decides = true, "a level above decides", true
		}
		out = append(out, said)
	}
	if namespace := e.Scope.Namespace; namespace != nil {
		said := Said{Source: Source{LevelNamespace, namespace.Name}, Settings: namespace.ttlFor(e.Facts).Settings()}
		take(said.reaching(e, namespace.Since, namespace.Backfill))
	}
	for _, policy := range e.Scope.Policies {
		said := Said{Source: Source{LevelPolicy, policy.Name}, Settings: policy.TTL.Settings()}
		if e.Facts.IsPod() && e.Facts.OwnedByJob() {
			out = append(out, said.overruled("Pods of a Job have default-pod-ttl of their namespace alone"))
			continue
		}
		take(said.reaching(e, policy.Since, policy.Backfill))
	}
	return out
}

// reaching says of a default whether it reaches an object that does not carry it, as [Value.reaches] decides.
func (s Said) reaching(e *Explanation, since time.Time, backfill bool) Said {
	switch {
	case len(s.Settings) == 0 || s.Why != "":
	case e.Scope.Creating || (!since.IsZero() && e.Facts.Created.After(since)):
	case backfill:
		s.Why = "older than the default, and reached by backfill"
	case since.IsZero():
		s.Why = "since when it holds is not known, and it has no backfill: it reaches what is created from now on"
	default:
		s.Why = fmt.Sprintf("the object is older than the default, of %s, which has no backfill", since.UTC().Format(time.RFC3339))
	}
	return s
}

// deadlineLevels go through the levels as resolveDeadline does, which decides.
func (e *Explanation) deadlineLevels() []Said {
	object := Said{Source: Source{Level: LevelObject}}
	if own := e.Facts.Deadline(); own != nil {
		object.Settings, object.Decides = []*Setting{own}, true
		if source, ok := defaultSource(e.Facts.Annotations, AnnotationDeadlineSource); ok {
			object.Why = "filled in at its creation from " + source.Phrase()
		}
	}
	decided, why := object.Decides, "a level above decides"
	if !decided && (e.Facts.IsPod() || e.NoDefault != "") {
		decided, why = true, "no default, as the object "+e.NoDefault
		if e.Facts.IsPod() {
			why = "no default deadline for a Pod"
		}
	}
	out := []Said{object}
	take := func(source Source, setting *Setting, since time.Time, backfill bool) {
		said := Said{Source: source}
		if setting != nil {
			said.Settings = []*Setting{setting}
		}
		switch said = said.reaching(e, since, backfill); {
		case setting == nil:
		case decided:
			said = said.overruled(why)
		default:
			decided, why, said.Decides = true, "a level above decides", true
		}
		out = append(out, said)
	}
	if runtime := e.Scope.Runtime; runtime != nil {
		take(Source{LevelRuntime, runtime.Name}, runtime.Deadline, time.Time{}, false)
		if runtime.Unusable() != nil {
			out[len(out)-1].Why = "it does not exist, or cannot be told"
			if !decided {
				decided, why = true, "no default, as the runtime may say a longer one"
			}
		}
	}
	if !decided && !e.Facts.Profile.DefaultDeadline {
		decided, why = true, "no default deadline for a "+e.Facts.Profile.Kind.Kind
	}
	if namespace := e.Scope.Namespace; namespace != nil {
		take(Source{LevelNamespace, namespace.Name}, namespace.Deadline, namespace.Since, namespace.Backfill)
	}
	for _, policy := range e.Scope.Policies {
		take(Source{LevelPolicy, policy.Name}, policy.Deadline, policy.Since, policy.Backfill)
	}
	return out
}
