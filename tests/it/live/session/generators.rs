//! What kubectl makes of flags and sends as protobuf (`create deployment`, `expose`, `autoscale` …), and the columns that `get` shows of it.

use super::{Outcome, Session, same};

/// A command, and what it says.
type Line<'a> = (&'a str, &'a str);

const GENERATED: [Line<'static>; 24] = [
    ("create namespace shop", "namespace/shop created"),
    ("create configmap settings --from-literal=color=red --from-literal=size=1", "configmap/settings created"),
    ("create secret generic key --from-literal=word=open", "secret/key created"),
    ("create secret docker-registry pull --docker-server=r.ex.io --docker-username=u --docker-password=p", "secret/pull created"),
    ("create serviceaccount robot", "serviceaccount/robot created"),
    ("create deployment web --image=nginx:1 --replicas=2 --port=80", "deployment.apps/web created"),
    ("create job once --image=busybox -- true", "job.batch/once created"),
    ("create cronjob often --image=busybox --schedule=@hourly -- true", "cronjob.batch/often created"),
    ("create job again --from=cronjob/often", "job.batch/again created"),
    ("create service clusterip inner --tcp=80:8080 --clusterip=None", "service/inner created"),
    ("create service externalname away --external-name=ex.io", "service/away created"),
    ("create role reader --verb=get,list --resource=configmaps,deployments.apps", "role.rbac.authorization.k8s.io/reader created"),
    (
        "create rolebinding reads --role=reader --serviceaccount=default:robot --user=ann",
        "rolebinding.rbac.authorization.k8s.io/reads created",
    ),
    ("create clusterrole looker --verb=get --resource=nodes", "clusterrole.rbac.authorization.k8s.io/looker created"),
    ("create clusterrolebinding looks --clusterrole=looker --group=team", "clusterrolebinding.rbac.authorization.k8s.io/looks created"),
    ("create quota few --hard=pods=3,cpu=2,memory=1Gi", "resourcequota/few created"),
    ("create ingress front --rule=ex.io/a*=web:80 --class=c", "ingress.networking.k8s.io/front created"),
    ("create pdb half --selector=app=web --min-available=50%", "poddisruptionbudget.policy/half created"),
    ("create priorityclass urgent --value=1000 --description=first", "priorityclass.scheduling.k8s.io/urgent created"),
    ("autoscale deployment web --min=1 --max=5 --cpu-percent=80", "horizontalpodautoscaler.autoscaling/web autoscaled"),
    ("expose deployment web --port=80 --target-port=8080 --name=shown --type=ClusterIP --cluster-ip=None", "service/shown exposed"),
    ("create deployment dry --image=nginx:1 --dry-run=server", "deployment.apps/dry created (server dry run)"),
    ("set serviceaccount deployment web robot", "deployment.apps/web serviceaccount updated"),
    ("set subject rolebinding reads --user=bob", "rolebinding.rbac.authorization.k8s.io/reads subjects updated"),
];

const REFUSED: [Line<'static>; 5] = [
    ("create namespace shop", r#"Error from server (AlreadyExists): namespaces "shop" already exists"#),
    ("create configmap settings --from-literal=a=b", r#"error: failed to create configmap: configmaps "settings" already exists"#),
    ("create deployment web --image=nginx:1", r#"error: failed to create deployment: deployments.apps "web" already exists"#),
    ("create configmap x -n nowhere", r#"error: failed to create configmap: namespaces "nowhere" not found"#),
    ("create job none --from=cronjob/none", r#"Error from server (NotFound): cronjobs.batch "none" not found"#),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn made_of_flags() -> Outcome {
    let session = Session::open().await?;
    for (line, said) in GENERATED {
        session.says(line, said)?;
    }
    for (line, said) in REFUSED {
        session.refused(line, "", said)?;
    }
    // The pod's account would be looked for by a controller that is not here.
    session.says("run alone --image=busybox --restart=Never", "pod/alone created")?;
    session.has("deploy/web", "{.spec.replicas}{.spec.template.spec.containers[0].ports[0].containerPort}", "280")?;
    session.has("secret/pull", "{.type}", "kubernetes.io/dockerconfigjson")?;
    session.has("job/again", "{.metadata.ownerReferences[0].name}{.spec.template.spec.containers[0].command}", r#"often["true"]"#)?;
    session.has("rolebinding/reads", "{.subjects[*].name}", "ann robot bob")?;
    session.has(
        "hpa/web",
        "{.spec.maxReplicas}{.spec.scaleTargetRef.name}{.spec.metrics[0].resource.target.averageUtilization}",
        "5web80",
    )?;
    session.has(
        "horizontalpodautoscalers.v1.autoscaling/web",
        "{.apiVersion}{.spec.targetCPUUtilizationPercentage}",
        "autoscaling/v180",
    )?;
    session.has("quota/few", "{.spec.hard.memory}", "1Gi")?;
    for (line, table) in COLUMNS {
        same(line, &aged(&session.ok(line)?), table.trim_matches('\n'))?;
    }
    Ok(())
}

/// Ages are `~`, as long as they are.
const COLUMNS: [Line<'static>; 14] = [
    (
        "get horizontalpodautoscalers.v1.autoscaling",
        "
NAME   REFERENCE        TARGETS              MINPODS   MAXPODS   REPLICAS   AGE
web    Deployment/web   cpu: <unknown>/80%   1         5         0          ~",
    ),
    (
        "get ns shop",
        "
NAME   STATUS   AGE
shop   Active   ~",
    ),
    (
        "get cm settings -o wide",
        "
NAME       DATA   AGE
settings   2      ~",
    ),
    (
        "get secret,sa",
        "
NAME          TYPE                             DATA   AGE
secret/key    Opaque                           1      ~
secret/pull   kubernetes.io/dockerconfigjson   1      ~

NAME                   AGE
serviceaccount/robot   ~",
    ),
    (
        "get deploy,pod -o wide",
        "
NAME                  READY   UP-TO-DATE   AVAILABLE   AGE   CONTAINERS   IMAGES    SELECTOR
deployment.apps/web   0/2     0            0           ~     nginx        nginx:1   app=web

NAME        READY   STATUS    RESTARTS   AGE   IP       NODE     NOMINATED NODE   READINESS GATES
pod/alone   0/1     Pending   0          ~     <none>   <none>   <none>           <none>",
    ),
    (
        "get deploy -A --show-labels",
        "
NAMESPACE   NAME   READY   UP-TO-DATE   AVAILABLE   AGE   LABELS
default     web    0/2     0            0           ~     app=web",
    ),
    (
        "get job",
        "
NAME    STATUS    COMPLETIONS   DURATION   AGE
again   Running   0/1                      ~
once    Running   0/1                      ~",
    ),
    (
        "get svc -o wide --field-selector=metadata.name!=kubernetes",
        "
NAME    TYPE           CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE   SELECTOR
away    ExternalName   <none>       ex.io         <none>    ~     app=away
inner   ClusterIP      None         <none>        80/TCP    ~     app=inner
shown   ClusterIP      None         <none>        80/TCP    ~     app=web",
    ),
    (
        "get rolebinding -o wide",
        "
NAME    ROLE          AGE   USERS      GROUPS   SERVICEACCOUNTS
reads   Role/reader   ~     ann, bob            default/robot",
    ),
    (
        "get clusterrolebinding looks -o wide",
        "
NAME    ROLE                 AGE   USERS   GROUPS   SERVICEACCOUNTS
looks   ClusterRole/looker   ~             team",
    ),
    (
        "get quota,ingress,pdb",
        "
NAME                REQUEST   LIMIT   AGE
resourcequota/few                     ~

NAME                              CLASS   HOSTS   ADDRESS   PORTS   AGE
ingress.networking.k8s.io/front   c       ex.io             80      ~

NAME                              MIN AVAILABLE   MAX UNAVAILABLE   ALLOWED DISRUPTIONS   AGE
poddisruptionbudget.policy/half   50%             N/A               0                     ~",
    ),
    (
        "get pc urgent",
        "
NAME     VALUE   GLOBAL-DEFAULT   AGE   PREEMPTIONPOLICY
urgent   1000    false            ~     PreemptLowerPriority",
    ),
    ("get cm settings -L app --no-headers", "settings   2     ~"),
    ("get rs,ds,sts,pvc,leases", ""),
];

/// Rows with `~` and blanks in place of ages.
fn aged(table: &str) -> String {
    let row = |line: &str| {
        let mut out = String::new();
        for word in line.split_inclusive(' ') {
            let text = word.trim_end();
            if text.strip_suffix('s').is_some_and(|seconds| seconds.parse::<u8>().is_ok()) {
                out.push('~');
                out.extend(std::iter::repeat_n(' ', word.len() - 1));
            } else {
                out.push_str(word);
            }
        }
        // The last column is as long as its longest.
        if out.trim_end().ends_with('~') && line.ends_with('s') { out.trim_end().to_owned() } else { out }
    };
    table.lines().map(row).collect::<Vec<_>>().join("\n")
}

const EVENT: &str = "\
apiVersion: v1
kind: Event
metadata: {name: note, namespace: default}
involvedObject: {kind: Deployment, name: web, namespace: default}
type: Normal
reason: Tested
message: it was tried
count: 3
source: {component: test}
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs kubectl: WATCHCACHE_TEST_KUBECTL"]
async fn columns_that_change() -> Outcome {
    let session = Session::open().await?;
    session.ok("create deployment web --image=nginx:1")?;
    let mut rows = session.rows("get deploy -w")?;
    rows.wait_for(2)?;
    session.ok("scale deploy web --replicas=3")?;
    rows.wait_for(3)?;
    session.ok("create deployment more --image=nginx:1")?;
    rows.wait_for(4)?;
    session.ok("delete deploy web")?;
    let all = rows.wait_for(5)?.join("\n");
    let expected = "
NAME   READY   UP-TO-DATE   AVAILABLE   AGE
web    0/1     0            0           ~
web    0/3     0            0           ~
more   0/1     0            0           ~
web    0/3     0            0           ~";
    same("get -w", &aged(&all), expected.trim_start())?;
    let mut told = session.rows("get deploy -w --output-watch-events -o wide")?;
    told.wait_for(2)?;
    session.ok("delete deploy more")?;
    let expected = "
EVENT      NAME   READY   UP-TO-DATE   AVAILABLE   AGE   CONTAINERS   IMAGES    SELECTOR
ADDED      more   0/1     0            0           ~     nginx        nginx:1   app=more
DELETED    more   0/1     0            0           ~     nginx        nginx:1   app=more";
    same("get -w -o wide", &aged(&told.wait_for(3)?.join("\n")), expected.trim_start())?;
    session.given("create -f -", EVENT)?;
    let events = "
LAST SEEN   TYPE     REASON   OBJECT           MESSAGE
<unknown>   Normal   Tested   deployment/web   it was tried";
    session.says("get events --field-selector=reason=Tested", events.trim_start())?;
    let wide = "
LAST SEEN   TYPE     REASON   OBJECT           SUBOBJECT   SOURCE   MESSAGE        FIRST SEEN   COUNT   NAME
<unknown>   Normal   Tested   deployment/web               test     it was tried   <unknown>    3       note";
    session.says("get events --field-selector=reason=Tested -o wide", wide.trim_start())
}

#[test]
fn ages_do_not_count() {
    assert_eq!(aged("NAME   AGE   X\na      0s    1s1\nb      12s   s"), "NAME   AGE   X\na      ~     1s1\nb      ~     s");
    assert_eq!(aged("a   12s\nb   0s"), "a   ~\nb   ~");
}
