// Checks.java KUBECONFIG: fabric8's `kubernetes-client`, one line for each check, exit status 1 when one fails.

import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.GenericKubernetesResourceBuilder;
import io.fabric8.kubernetes.api.model.ListOptionsBuilder;
import io.fabric8.kubernetes.client.Config;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.MixedOperation;
import io.fabric8.kubernetes.client.dsl.NonNamespaceOperation;
import io.fabric8.kubernetes.client.dsl.Resource;
import io.fabric8.kubernetes.client.dsl.base.PatchContext;
import io.fabric8.kubernetes.client.dsl.base.PatchType;
import io.fabric8.kubernetes.client.dsl.base.ResourceDefinitionContext;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;

public class Checks {
  static final String NAMESPACE = "default";
  static boolean failed = false;
  static KubernetesClient client;

  public static void main(String[] arguments) throws Exception {
    client = new KubernetesClientBuilder().withConfig(Config.fromKubeconfig(new File(arguments[0]))).build();
    try {
      check("the version", client.getKubernetesVersion().getMinor().equals("36"), "");
      objects();
      watches();
      informer();
      custom();
    } finally {
      client.close();
    }
    System.exit(failed ? 1 : 0);
  }

  static void check(String name, boolean held, Object found) {
    System.out.println((held ? "ok: java: " : "FAILED: java: ") + name + (held ? "" : ": " + found));
    failed |= !held;
  }

  static boolean until(BooleanSupplier question) throws InterruptedException {
    for (int tries = 0; tries < 200 && !question.getAsBoolean(); tries++) {
      Thread.sleep(100);
    }
    return question.getAsBoolean();
  }

  static Resource<ConfigMap> map(String name) {
    return client.configMaps().inNamespace(NAMESPACE).withName(name);
  }

  static ConfigMap create(String name) {
    ConfigMap made = new ConfigMapBuilder().withNewMetadata().withName(name).endMetadata().addToData("a", "1").build();
    return client.configMaps().inNamespace(NAMESPACE).resource(made).create();
  }

  static void objects() {
    create("java");
    Map<PatchType, String> patches =
        Map.of(
            PatchType.JSON, "[{\"op\": \"add\", \"path\": \"/data/JSON\", \"value\": \"1\"}]",
            PatchType.JSON_MERGE, "{\"data\": {\"JSON_MERGE\": \"1\"}}",
            PatchType.STRATEGIC_MERGE, "{\"data\": {\"STRATEGIC_MERGE\": \"1\"}}");
    patches.forEach(
        (kind, patch) -> {
          ConfigMap patched = map("java").patch(PatchContext.of(kind), patch);
          check("patch (" + kind + ")", patched.getData().containsKey(kind.name()), patched);
        });
    ConfigMap edited = map("java").edit(it -> new ConfigMapBuilder(it).addToData("edited", "1").build());
    check("an edit", edited.getData().containsKey("edited"), edited);
    try {
      create("java");
      check("409 of what is there", false, "created twice");
    } catch (KubernetesClientException error) {
      check("409 of what is there", error.getCode() == 409, error);
    }
    List<ConfigMap> listed = client.configMaps().inNamespace(NAMESPACE).list().getItems();
    check("a list", listed.stream().anyMatch(it -> it.getMetadata().getName().equals("java")), listed);
    map("java").delete();
    check("delete", map("java").get() == null, "still there");
  }

  /** Remembers what it is shown, and why it ended. */
  static class Seen implements Watcher<ConfigMap> {
    final List<String> actions = new CopyOnWriteArrayList<>();
    final AtomicReference<String> revision = new AtomicReference<>();
    final AtomicReference<WatcherException> ended = new AtomicReference<>();

    public void eventReceived(Action action, ConfigMap object) {
      revision.set(object.getMetadata().getResourceVersion());
      actions.add(action.name());
    }

    public void onClose(WatcherException cause) {
      ended.set(cause);
    }
  }

  static void watches() throws Exception {
    String revision = client.configMaps().inNamespace(NAMESPACE).list().getMetadata().getResourceVersion();
    create("watched");
    Seen first = new Seen();
    try (var watch = map("watched").watch(new ListOptionsBuilder().withResourceVersion(revision).build(), first)) {
      check("a watch", until(() -> first.actions.equals(List.of("ADDED"))), first.actions);
    }
    map("watched").patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\": {\"a\": \"b\"}}");
    map("watched").delete();
    Seen second = new Seen();
    try (var watch = map("watched").watch(new ListOptionsBuilder().withResourceVersion(first.revision.get()).build(), second)) {
      check("a watch resumes", until(() -> second.actions.equals(List.of("MODIFIED", "DELETED"))), second.actions);
    }
    Seen late = new Seen();
    try (var watch = map("watched").watch(new ListOptionsBuilder().withResourceVersion("1").build(), late)) {
      check("410 of a watch that comes too late", until(() -> late.ended.get() != null && late.ended.get().isHttpGone()), late.ended.get());
    } catch (KubernetesClientException error) {
      check("410 of a watch that comes too late", error.getCode() == 410, error);
    }
  }

  static void informer() throws Exception {
    List<String> seen = new CopyOnWriteArrayList<>();
    ResourceEventHandler<ConfigMap> handler =
        new ResourceEventHandler<>() {
          public void onAdd(ConfigMap object) {
            note("add", object);
          }

          public void onUpdate(ConfigMap old, ConfigMap object) {
            note("update", object);
          }

          public void onDelete(ConfigMap object, boolean unknown) {
            note("delete", object);
          }

          private void note(String what, ConfigMap object) {
            if (object.getMetadata().getName().equals("informed")) {
              seen.add(what);
            }
          }
        };
    try (var informer = client.configMaps().inNamespace(NAMESPACE).inform(handler)) {
      create("informed");
      map("informed").patch(PatchContext.of(PatchType.JSON_MERGE), "{\"data\": {\"a\": \"b\"}}");
      String key = NAMESPACE + "/informed";
      BooleanSupplier isNew = () -> informer.getStore().getByKey(key) != null && "b".equals(informer.getStore().getByKey(key).getData().get("a"));
      check("an informer's cache", until(isNew), informer.getStore().list());
      map("informed").delete();
      check("an informer's events", until(() -> seen.equals(List.of("add", "update", "delete"))), seen);
    }
  }

  static void custom() throws Exception {
    String definition =
        """
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: things.java.example}
        spec:
          group: java.example
          scope: Namespaced
          names: {plural: things, singular: thing, kind: Thing}
          versions:
          - name: v1
            served: true
            storage: true
            schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
            subresources: {status: {}}
        """;
    var made = client.load(new java.io.ByteArrayInputStream(definition.getBytes())).items();
    client.resourceList(made).create();
    var context = new ResourceDefinitionContext.Builder().withGroup("java.example").withVersion("v1").withKind("Thing").withPlural("things").withNamespaced(true).build();
    var things = client.genericKubernetesResources(context).inNamespace(NAMESPACE);
    GenericKubernetesResource thing =
        new GenericKubernetesResourceBuilder().withApiVersion("java.example/v1").withKind("Thing").withNewMetadata().withName("java").endMetadata().build();
    thing.setAdditionalProperty("spec", Map.of("size", 1));
    check("a custom resource", until(() -> is(() -> things.resource(thing).create())), "not created");
    thing.setAdditionalProperty("status", Map.of("seen", true));
    GenericKubernetesResource patched = things.resource(thing).patchStatus();
    check("a patch of its status", Boolean.TRUE.equals(patched.get("status", "seen")), patched);
    things.withName("java").delete();
    check("its list", things.list().getItems().isEmpty(), things.list());
  }

  /** Whether it is done, or was before: a new definition is served a moment later. */
  static boolean is(Runnable done) {
    try {
      done.run();
      return true;
    } catch (KubernetesClientException error) {
      return error.getCode() == 409;
    }
  }
}
